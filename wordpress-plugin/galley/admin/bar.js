/* Requests the state of the current page, or in wp-admin the state of the site, and shows it in the admin bar. */
( function () {
	'use strict';

	function words( id, text ) {
		var item = document.querySelector( '#wp-admin-bar-' + id + ' .ab-item' );
		if ( item ) {
			item.textContent = text;
			item.parentNode.classList.toggle( 'has-words', '' !== text );
		}
	}

	function tell( state ) {
		var root = document.getElementById( 'wp-admin-bar-galley' );
		var dot = root && root.querySelector( '.galley-state' );
		var label = root && root.querySelector( '.galley-label' );
		if ( ! dot || ! label ) {
			return;
		}
		dot.className = 'galley-state is-' + state.state;
		dot.textContent = { hit: '✓', stale: '!', miss: '!', pass: '✗' }[ state.state ] || '?';
		label.textContent = state.label;
		words( 'galley-why', state.why );
		words( 'galley-do', state.what_to_do );
	}

	function ask() {
		var body = new URLSearchParams();
		body.set( 'action', window.galleyBar.action );
		body.set( '_ajax_nonce', window.galleyBar.nonce );
		body.set( 'url', window.location.href.split( '#' )[ 0 ] );
		window
			.fetch( window.galleyBar.ajax, { method: 'POST', body: body, credentials: 'same-origin' } )
			.then( function ( answer ) {
				return answer.json();
			} )
			.then( function ( answer ) {
				if ( answer && answer.success ) {
					tell( answer.data );
				}
			} )
			.catch( function () {} );
	}

	document.addEventListener( 'click', function ( event ) {
		var link = event.target.closest && event.target.closest( '#wp-admin-bar-galley-purge-all a' );
		if ( link && window.galleyBar && ! window.confirm( window.galleyBar.confirm ) ) {
			event.preventDefault();
		}
	} );

	if ( window.galleyBar && window.fetch ) {
		if ( 'loading' === document.readyState ) {
			document.addEventListener( 'DOMContentLoaded', ask );
		} else {
			ask();
		}
	}
} )();
