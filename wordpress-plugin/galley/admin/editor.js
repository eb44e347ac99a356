/* The panel "Page cache" of the block editor, which shows what an update will purge. */
( function ( wp ) {
	'use strict';

	// Since WordPress 6.6, the panel is in wp.editor.
	var Panel = ( wp.editor && wp.editor.PluginDocumentSettingPanel ) || ( wp.editPost && wp.editPost.PluginDocumentSettingPanel );
	var element = wp.element.createElement;
	var __ = wp.i18n.__;

	function Effect() {
		var post = wp.data.useSelect( function ( select ) {
			var editor = select( 'core/editor' );
			return {
				id: editor.getCurrentPostId(),
				isSaving: editor.isSavingPost() && ! editor.isAutosavingPost(),
			};
		}, [] );
		var state = wp.element.useState( null );
		var told = state[ 0 ];
		var tell = state[ 1 ];
		wp.element.useEffect( function () {
			var isWanted = true;
			if ( ! post.id || post.isSaving ) {
				return;
			}
			wp.apiFetch( { path: '/galley/v1/effect/' + post.id } )
				.then( function ( answer ) {
					if ( isWanted ) {
						tell( answer.sentences );
					}
				} )
				.catch( function () {
					if ( isWanted ) {
						tell( [] );
					}
				} );
			return function () {
				isWanted = false;
			};
		}, [ post.id, post.isSaving ] );
		var sentences = told || [ __( 'Checking what an update purges', 'galley' ) ];
		if ( told && ! told.length ) {
			sentences = [ __( 'Galley does not answer at the moment. Purges are sent all the same.', 'galley' ) ];
		}
		return element(
			Panel,
			{ name: 'galley-effect', title: __( 'Page cache', 'galley' ), className: 'galley-effect' },
			sentences.map( function ( sentence, at ) {
				return element( 'p', { key: at }, sentence );
			} )
		);
	}

	if ( Panel && wp.plugins ) {
		wp.plugins.registerPlugin( 'galley', { render: Effect, icon: null } );
	}
} )( window.wp );
