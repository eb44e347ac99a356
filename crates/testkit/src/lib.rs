//! Starts the real things that tests, demo and bench need: PHP-FPM, MariaDB, Apache, WordPress, Galley itself.
