<?php
// Writes wp-config.php and installs WordPress, unless that has been done: `php configure-wordpress.php ROOT SECRETS`.
// The password of the user `admin` is the content of SECRETS/wordpress. start-wordpress runs this program.

[ , $root, $secrets ] = $argv;

function setting( string $name, string $default ): string {
	$value = getenv( $name );
	return false === $value || '' === $value ? $default : $value;
}

function fail( string $why ): void {
	fwrite( STDERR, "start-wordpress: $why\n" );
	exit( 1 );
}

$host = setting( 'DATABASE_HOST', 'database' );
$password = "trim( file_get_contents( '$secrets/database' ) )";

if ( ! file_exists( "$root/wp-config.php" ) ) {
	$text = "<?php\ndefine( 'DB_NAME', 'wordpress' );\ndefine( 'DB_USER', 'wordpress' );\ndefine( 'DB_PASSWORD', $password );\n"
		. "define( 'DB_HOST', " . var_export( $host, true ) . " );\ndefine( 'DB_CHARSET', 'utf8mb4' );\ndefine( 'DB_COLLATE', '' );\n";
	foreach ( array( 'AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE' ) as $name ) {
		foreach ( array( 'KEY', 'SALT' ) as $kind ) {
			$text .= "define( '{$name}_$kind', '" . bin2hex( random_bytes( 32 ) ) . "' );\n";
		}
	}
	$text .= "\$table_prefix = 'wp_';\nif ( ! defined( 'ABSPATH' ) ) {\n\tdefine( 'ABSPATH', __DIR__ . '/' );\n}\n"
		. "require_once ABSPATH . 'wp-settings.php';\n";
	umask( 0077 );
	if ( false === file_put_contents( "$root/.wp-config.new", $text ) || ! rename( "$root/.wp-config.new", "$root/wp-config.php" ) ) {
		fail( "cannot write $root/wp-config.php" );
	}
	umask( 0022 );
}

// After a restart of the machine, the database may start later than this container.
mysqli_report( MYSQLI_REPORT_OFF );
for ( $second = 0; ; $second++ ) {
	$database = mysqli_init();
	if ( @$database->real_connect( $host, 'wordpress', trim( file_get_contents( "$secrets/database" ) ), 'wordpress' ) ) {
		break;
	}
	if ( $second >= 60 ) {
		fail( "no connection to the database `$host` in 60 s: " . mysqli_connect_error() );
	}
	sleep( 1 );
}

$address = setting( 'WORDPRESS_URL', 'http://localhost:8080' );
$_SERVER += array(
	'HTTP_HOST'       => parse_url( $address, PHP_URL_HOST ),
	'REQUEST_URI'     => '/',
	'SERVER_PROTOCOL' => 'HTTP/1.1',
	'REQUEST_METHOD'  => 'GET',
);
define( 'WP_INSTALLING', true );
define( 'WP_SITEURL', $address );
// The image has no mail server, and WordPress would send the address of its new site.
function wp_new_blog_notification() {}
require "$root/wp-load.php";
if ( is_blog_installed() ) {
	exit;
}
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install(
	setting( 'WORDPRESS_TITLE', 'WordPress' ),
	'admin',
	setting( 'WORDPRESS_EMAIL', 'admin@example.com' ),
	true,
	'',
	trim( file_get_contents( "$secrets/wordpress" ) ),
	setting( 'WORDPRESS_LANGUAGE', '' )
);
$GLOBALS['wp_rewrite']->set_permalink_structure( '/%postname%/' );
flush_rewrite_rules( false );
fwrite( STDERR, "start-wordpress: WordPress is installed; user `admin`, password in $secrets/wordpress\n" );
