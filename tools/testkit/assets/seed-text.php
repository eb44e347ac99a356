<?php
/**
 * The words of the sample site: titles, names, and paragraphs put together from parts. The same seed gives the same text
 * on every machine, so that page sizes and test expectations hold.
 */

declare(strict_types=1);

namespace Galley\Seed;

/** Titles of the sixty posts, newest first. */
function post_titles(): array {
	return array(
		'The ferry runs again', 'A slipway mended in four days', 'What the tide left on Sunday', 'Bread at five in the morning',
		'Notes on painting a hull', 'The lamp at the end of the pier', 'Eleven kinds of knot', 'Market day in the rain',
		'How the old crane was moved', 'A week without wind', 'Salt, smoke and patience', 'The woman who repairs clocks',
		'Low water at the north wall', 'Two boats with one name', 'Learning to read the sky', 'The smallest shop in town',
		'A new floor for the net loft', 'Why the bells rang twice', 'Plum jam, the short way', 'The harbour master retires',
		'Seven lighthouses by bicycle', 'An engine older than the town hall', 'Fog, and what to do in it', 'The chandler keeps a list',
		'Soup for forty people', 'A door made of driftwood', 'The map that was wrong', 'Spring tide, dry feet',
		'Letters from the weather station', 'The oar maker and the ash tree', 'A stall with only lemons', 'Night watch on the breakwater',
		'How to fold a sail alone', 'The library in the customs house', 'Mussels, and when not to', 'A rope walk comes back',
		'Counting seals from the ferry', 'The baker answers questions', 'Iron, rust and linseed oil', 'A holiday for the lock keeper',
		'The regatta nobody won', 'Tea in the signal tower', 'A drawer full of hinges', 'The road behind the dunes',
		'Pickled herring, third attempt', 'The school boat gets a mast', 'What the diver found', 'Old prices on a slate',
		'A bench for the ferry queue', 'The storm of the ninth', 'Mending nets by radio', 'The pharmacist who sails',
		'Chestnuts at the back gate', 'A tide table for children', 'The long way round the bay', 'Tar, twine and a good knife',
		'A market under one roof', 'The pilot tells three stories', 'First frost on the moorings', 'How this page is made',
	);
}

/** Category names: parent to children. Eight in all. */
function category_tree(): array {
	return array(
		'Harbour'  => array( 'Boats', 'Tides' ),
		'Town'     => array( 'Market', 'People' ),
		'Kitchen'  => array(),
		'Workshop' => array(),
	);
}

function tag_names(): array {
	return array( 'ferry', 'weather', 'repairs', 'bread', 'fish', 'wood', 'paint', 'winter', 'summer', 'history', 'how-to', 'walks' );
}

/** Pages: title to children. Ten in all. */
function page_tree(): array {
	return array(
		'About'   => array( 'Our crew' => array( 'Join us' => array() ), 'History' => array() ),
		'Visit'   => array( 'Getting here' => array( 'By ferry' => array() ), 'Where to stay' => array() ),
		'Contact' => array(),
		'Privacy' => array(),
	);
}

function visitor_names(): array {
	return array( 'Anneke', 'Bruno Maier', 'Carla P.', 'D. Whitcombe', 'Elif', 'Farid Nassar', 'Greta', 'Hugo Lund', 'Ines', 'J. Abara', 'Kaori', 'Liam O\'Shea', 'Mette', 'Noor', 'Olek' );
}

/** A number from 0 to $below - 1 that depends on the two seeds only. */
function pick( int $seed, int $step, int $below ): int {
	return (int) ( hexdec( substr( md5( "$seed/$step" ), 0, 7 ) ) % $below );
}

/** One sentence. */
function sentence( int $seed, int $step ): string {
	$openings = array( 'In the morning', 'By the old wall', 'After the second bell', 'On most days', 'When the wind turns', 'Since last autumn', 'Before the shops open', 'Further along the quay', 'As everyone here knows', 'With a little luck', 'At half tide', 'Later that week' );
	$subjects = array( 'the ferry crew', 'a boat builder', 'the baker\'s daughter', 'the harbour office', 'somebody from the market', 'our neighbour', 'the keeper of the light', 'a class of eleven children', 'the chandler', 'one of the pilots', 'the woman with the clocks', 'an old friend' );
	$verbs    = array( 'looks after', 'talks about', 'carries home', 'paints', 'measures', 'writes down', 'repairs', 'sells', 'remembers', 'counts', 'waits for', 'brings back' );
	$objects  = array( 'the blue dinghy', 'a crate of lemons', 'what the water left behind', 'the price of rope', 'the long list of names', 'two coats of varnish', 'the first warm bread', 'a chart of the bay', 'everything that was promised', 'the north window', 'a box of brass screws', 'the rules of the regatta' );
	$endings  = array( 'and nobody minds', 'while the gulls complain', 'without saying much', 'as it was done forty years ago', 'because somebody has to', 'and then goes home for lunch', 'which takes longer than it sounds', 'in all kinds of weather', 'with great care', 'for anyone who asks' );
	$shape    = pick( $seed, $step, 4 );
	$parts    = array( $subjects[ pick( $seed, $step + 1, 12 ) ], $verbs[ pick( $seed, $step + 2, 12 ) ], $objects[ pick( $seed, $step + 3, 12 ) ] );
	if ( 0 === $shape || 2 === $shape ) {
		array_unshift( $parts, $openings[ pick( $seed, $step + 4, 12 ) ] );
	}
	$text = ucfirst( implode( ' ', $parts ) );
	return $text . ( $shape > 0 ? ', ' . $endings[ pick( $seed, $step + 5, 10 ) ] : '' ) . '.';
}

/** A paragraph of the given number of sentences. */
function paragraph( int $seed, int $number, int $sentences ): string {
	$all = array();
	for ( $i = 0; $i < $sentences; $i++ ) {
		$all[] = sentence( $seed, $number * 1000 + $i * 10 );
	}
	return implode( ' ', $all );
}

/** A body in block markup: two to nine paragraphs, every third one below a heading, an image where one is given. */
function body( int $seed, string $image_block = '' ): string {
	$blocks = array();
	$count  = 2 + pick( $seed, 1, 8 );
	for ( $number = 1; $number <= $count; $number++ ) {
		if ( 0 === $number % 3 ) {
			$blocks[] = "<!-- wp:heading -->\n<h2>" . esc_html( rtrim( sentence( $seed, $number * 77 ), '.' ) ) . "</h2>\n<!-- /wp:heading -->";
		}
		$text     = paragraph( $seed, $number, 2 + pick( $seed, $number + 50, 6 ) );
		$blocks[] = "<!-- wp:paragraph -->\n<p>" . esc_html( $text ) . "</p>\n<!-- /wp:paragraph -->";
		if ( 1 === $number && '' !== $image_block ) {
			$blocks[] = $image_block;
		}
	}
	return implode( "\n\n", $blocks );
}
