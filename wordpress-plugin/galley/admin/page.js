/* Asks for confirmation before an expensive action. The question is an attribute of the form. */
( function () {
	'use strict';

	document.addEventListener( 'submit', function ( event ) {
		var question = event.target.getAttribute( 'data-galley-confirm' );
		if ( question && ! window.confirm( question ) ) {
			event.preventDefault();
		}
	} );
} )();
