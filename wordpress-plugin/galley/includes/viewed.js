( function ( data ) {
	'use strict';
	data[ 2 ].forEach( function ( list ) {
		var name = list[ 0 ], separator = list[ 1 ], id = String( data[ 1 ] ), kept = null, ids = [];
		try {
			kept = document.cookie.match( '(?:^|; )' + name + '=([^;]*)' );
			ids = kept ? decodeURIComponent( kept[ 1 ] ).split( separator ) : [];
		} catch ( error ) {
			// The cookie is not encoded correctly: begin a new list.
		}
		ids = ids.filter( function ( text ) {
			return /^[1-9]\d{0,18}$/.test( text );
		} ).filter( function ( text, at, all ) {
			return all.lastIndexOf( text ) === at;
		} ).slice( -list[ 2 ] );
		if ( ids.length ) {
			document.querySelectorAll( '[data-galley-viewed]' ).forEach( function ( place ) {
				var at = data[ 0 ] + ( data[ 0 ].indexOf( '?' ) < 0 ? '?' : '&' ) + 'galley-viewed=' + encodeURIComponent( place.dataset.galleyViewed ) + '&galley-ids=' + ids.join( '-' );
				fetch( at ).then( function ( response ) {
					return response.ok ? response.text() : '';
				} ).then( function ( html ) {
					var body = new DOMParser().parseFromString( html, 'text/html' ).body;
					if ( body.dataset.galleyViewed === place.dataset.galleyViewed ) {
						place.outerHTML = body.innerHTML;
					}
				} ).catch( function () {} );
			} );
		}
		if ( null !== list[ 3 ] && '0' !== id ) {
			ids = ids.filter( function ( other ) {
				return other !== id;
			} );
			ids.push( id );
			document.cookie = name + '=' + encodeURIComponent( ids.slice( -list[ 2 ] ).join( separator ) ) + list[ 3 ];
		}
	} );
} )
