<?php
/**
 * Requirements of the plugin directory for files, header and readme.txt that no coding standard sniff checks.
 */

use PHPUnit\Framework\TestCase;

final class DirectoryTest extends TestCase {

	private const DIRECTORY = __DIR__ . '/..';

	/** No path through `..`, which `glob` does not follow in PHP as WebAssembly. */
	private static function assets(): string {
		return dirname( __DIR__, 2 ) . '/assets';
	}

	/** Permitted file extensions. */
	private const EXTENSIONS = array( 'php', 'js', 'css', 'txt', 'pot', 'po', 'mo', 'json' );

	private const LICENCE = 'GPL-2.0-or-later';

	/**
	 * Returns the content of every released file by its path relative to the plugin's directory.
	 *
	 * @return array<string, string> Content.
	 */
	private function files(): array {
		$files = array();
		$all   = new RecursiveIteratorIterator( new RecursiveDirectoryIterator( self::DIRECTORY, FilesystemIterator::SKIP_DOTS ) );
		foreach ( $all as $file ) {
			$name = substr( $file->getPathname(), strlen( self::DIRECTORY ) + 1 );
			if ( 0 !== strpos( $name, 'tests/' ) ) {
				$files[ $name ] = (string) file_get_contents( $file->getPathname() );
			}
		}
		$this->assertGreaterThan( 50, count( $files ) );
		return $files;
	}

	/** Returns the `Name: value` lines at the beginning of a file. */
	private function header( string $text ): array {
		preg_match_all( '/^[ \t\/*#@]*([A-Z][A-Za-z ]+?):[ \t]*(.+?)[ \t]*$/m', substr( $text, 0, 8192 ), $found );
		return array_combine( $found[1], $found[2] );
	}

	public function test_files_have_permitted_types_and_names() {
		foreach ( $this->files() as $name => $text ) {
			$this->assertContains( pathinfo( $name, PATHINFO_EXTENSION ), self::EXTENSIONS, $name );
			$this->assertDoesNotMatchRegularExpression( '~(^|/)\.|[^A-Za-z0-9._/-]~', $name, 'hidden file or invalid name' );
			$this->assertLessThan( 300000, strlen( $text ), $name );
		}
	}

	public function test_php_files_exit_when_called_directly() {
		foreach ( $this->files() as $name => $text ) {
			if ( 'php' === pathinfo( $name, PATHINFO_EXTENSION ) ) {
				// Only the namespace may precede the check.
				$code = preg_replace( array( '~/\*.*?\*/~s', '~^\s*//.*$~m' ), '', $text );
				$this->assertMatchesRegularExpression( "~^<\?php\s*(namespace Galley;\s*)?defined\( '(ABSPATH|WP_UNINSTALL_PLUGIN)' \) \|\| exit;~", $code, $name );
			}
		}
	}

	public function test_code_is_not_minified_and_loads_nothing_external() {
		foreach ( $this->files() as $name => $text ) {
			if ( ! in_array( pathinfo( $name, PATHINFO_EXTENSION ), array( 'php', 'js', 'css' ), true ) ) {
				continue;
			}
			foreach ( array( 'gzinflate', '<?=', 'ALLOW_UNFILTERED_UPLOADS', 'Update URI', 'pre_set_site_transient_update_plugins', '//localhost', '//127.0.0.1', 'cdn.jsdelivr', 'unpkg.com', 'googleapis.com', 'gstatic.com' ) as $word ) {
				$this->assertStringNotContainsString( $word, $text, $name );
			}
			$longest = max( array_map( 'strlen', explode( "\n", $text ) ) );
			$this->assertLessThan( 1000, $longest, "$name: minified?" );
		}
	}

	public function test_plugin_header_matches_readme() {
		$header = $this->header( (string) file_get_contents( self::DIRECTORY . '/galley.php' ) );
		$readme = $this->header( (string) file_get_contents( self::DIRECTORY . '/readme.txt' ) );
		foreach ( array( 'Plugin Name', 'Plugin URI', 'Description', 'Author', 'Author URI', 'Text Domain' ) as $field ) {
			$this->assertNotEmpty( $header[ $field ] ?? '', $field );
		}
		$this->assertNotSame( $header['Plugin URI'], $header['Author URI'] . '/', 'plugin and author have the same URI' );
		$this->assertSame( Galley\VERSION, $header['Version'] );
		$this->assertSame( Galley\VERSION, $readme['Stable tag'] );
		foreach ( array( 'Requires at least', 'Requires PHP', 'License' ) as $field ) {
			$this->assertSame( $header[ $field ], $readme[ $field ], $field );
		}
		$this->assertSame( self::LICENCE, $readme['License'] );
		$this->assertSame( 'galley', $header['Text Domain'] );
		$this->assertArrayNotHasKey( 'Network', $header );
	}

	public function test_readme_is_complete() {
		$text   = (string) file_get_contents( self::DIRECTORY . '/readme.txt' );
		$readme = $this->header( $text );
		$this->assertStringStartsWith( "=== Galley ===\n", $text );
		$this->assertMatchesRegularExpression( '/^[a-z0-9]+$/D', $readme['Contributors'] );
		$this->assertMatchesRegularExpression( '/^\d+\.\d+$/D', $readme['Tested up to'], 'must have two components' );
		$this->assertGreaterThanOrEqual( 0, version_compare( $readme['Tested up to'], $readme['Requires at least'] ) );
		$tags = explode( ', ', $readme['Tags'] );
		$this->assertLessThanOrEqual( 5, count( $tags ) );
		// The short description is the text between the header and the first section.
		preg_match( '/^License URI: .*\n\n(.+)\n\n== Description ==/m', $text, $short );
		$this->assertLessThanOrEqual( 150, strlen( $short[1] ) );
		foreach ( array( 'Description', 'Installation', 'Frequently Asked Questions', 'Screenshots', 'Changelog' ) as $section ) {
			$this->assertStringContainsString( "\n== $section ==\n", $text );
		}
		$this->assertStringContainsString( "\n= " . Galley\VERSION . " =\n", $text );
		foreach ( array( 'Tell the world', 'Here is a short description', 'example.com' ) as $default ) {
			$this->assertStringNotContainsString( $default, $text );
		}
		preg_match( '/== Screenshots ==\n\n(.+?)\n\n/s', $text, $screenshots );
		$names = glob( self::assets() . '/screenshot-*.png' );
		$this->assertSame( count( explode( "\n", $screenshots[1] ) ), count( $names ), 'one line per screenshot' );
	}

	public function test_directory_images_have_the_required_sizes() {
		$assets = self::assets();
		foreach ( array( 'icon-128x128.png' => array( 128, 128 ), 'icon-256x256.png' => array( 256, 256 ), 'banner-772x250.png' => array( 772, 250 ), 'banner-1544x500.png' => array( 1544, 500 ) ) as $name => $size ) {
			$this->assertSame( $size, array_slice( (array) getimagesize( "$assets/$name" ), 0, 2 ), $name );
		}
		$this->assertNotFalse( simplexml_load_string( (string) file_get_contents( "$assets/icon.svg" ) ) );
		$images = glob( "$assets/*.png" );
		$this->assertGreaterThan( 4, count( $images ) );
		foreach ( $images as $file ) {
			$this->assertLessThan( 1000000, filesize( $file ), $file );
		}
	}
}
