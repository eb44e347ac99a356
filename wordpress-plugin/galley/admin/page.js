/* Asks before a button does something that costs much: its words are in the form. */
( function () {
	'use strict';

	document.addEventListener( 'submit', function ( event ) {
		var question = event.target.getAttribute( 'data-galley-confirm' );
		if ( question && ! window.confirm( question ) ) {
			event.preventDefault();
		}
	} );
} )();
