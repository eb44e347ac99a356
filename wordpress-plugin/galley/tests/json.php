<?php
/**
 * Converts a .po file to the JSON format that WordPress uses for JavaScript (Jed 1.x): `php json.php FILE`. Called by scripts/plugin-texts.
 */

/**
 * Returns the messages of a .po file, each as a list of one msgid and one msgstr. Scripts use no plural forms.
 */
function texts_of( string $po ): array {
	$texts = array();
	foreach ( preg_split( '/\n\s*\n/', $po ) as $entry ) {
		if ( preg_match( '/^#~|^#,.*fuzzy/m', $entry ) || ! preg_match( '/^msgid ((?:".*"\s*)+)^msgstr ((?:".*"\s*)+)/m', $entry . "\n", $found ) ) {
			continue;
		}
		$texts[] = array_map(
			static function ( string $quoted ): string {
				preg_match_all( '/"((?:[^"\\\\]|\\\\.)*)"/', $quoted, $parts );
				return stripcslashes( implode( '', $parts[1] ) );
			},
			array( $found[1], $found[2] )
		);
	}
	return $texts;
}

$messages = array();
$head     = '';
foreach ( texts_of( file_get_contents( $argv[1] ) ) as list( $id, $text ) ) {
	if ( '' === $id ) {
		$head = $text;
	} elseif ( '' !== $text ) {
		$messages[ $id ] = array( $text );
	}
}
ksort( $messages );
preg_match( '/^Language: (\S+)/m', $head, $language );
preg_match( '/^Plural-Forms: (.+)$/m', $head, $plural );
$about = array( '' => array( 'domain' => 'messages', 'lang' => $language[1] ?? '', 'plural-forms' => trim( $plural[1] ?? '' ) ) );
echo json_encode( array( 'domain' => 'messages', 'locale_data' => array( 'messages' => $about + $messages ) ), JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES ), "\n";
