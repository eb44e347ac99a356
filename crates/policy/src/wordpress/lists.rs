//! The tables of the WordPress preset.
//!
//! The tables are sorted, and searched by first byte. No prefix is the beginning of another. Tests of the parent module check
//! the order.

/// Names, and prefixes of names.
pub(super) struct NameList {
    /// The first bytes of all names and prefixes.
    first: [bool; 256],
    pub(super) exact: SortedTexts,
    pub(super) prefixes: SortedTexts,
}

/// Sorted texts, searched by their first byte: most names in requests share it with few entries or none.
pub(super) struct SortedTexts {
    pub(super) all: &'static [&'static [u8]],
    /// The number of texts that begin with a lower byte.
    below: [u8; 257],
}

impl SortedTexts {
    const fn new(all: &'static [&'static [u8]]) -> Self {
        let mut below = [0; 257];
        let mut at = 0;
        while at < all.len() {
            let mut byte = all[at][0] as usize + 1;
            while byte < below.len() {
                below[byte] += 1;
                byte += 1;
            }
            at += 1;
        }
        Self { all, below }
    }

    /// The texts with the same first byte as `name`.
    fn like(&self, name: &[u8]) -> &[&'static [u8]] {
        let Some(&first) = name.first() else {
            return &[];
        };
        let place = usize::from(first);
        let bound = |at: usize| self.below.get(at).copied().map(usize::from);
        bound(place)
            .zip(bound(place + 1))
            .and_then(|(start, end)| self.all.get(start..end))
            .unwrap_or_default()
    }
}

impl NameList {
    const fn new(exact: &'static [&'static [u8]], prefixes: &'static [&'static [u8]]) -> Self {
        Self {
            first: first_bytes(exact, prefixes),
            exact: SortedTexts::new(exact),
            prefixes: SortedTexts::new(prefixes),
        }
    }

    /// Whether any name or prefix begins with this byte.
    pub(super) fn begins(&self, first: u8) -> bool {
        self.first
            .get(usize::from(first))
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.prefixes
            .like(name)
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || self.exact.like(name).contains(&name)
    }
}

const fn first_bytes(exact: &[&[u8]], prefixes: &[&[u8]]) -> [bool; 256] {
    let mut first = [false; 256];
    let mut at = 0;
    while at < exact.len() + prefixes.len() {
        let name = if at < exact.len() {
            exact[at]
        } else {
            prefixes[at - exact.len()]
        };
        first[name[0] as usize] = true;
        at += 1;
    }
    first
}

pub(super) static BYPASS_COOKIES: NameList = NameList::new(
    &[
        b"NO_CACHE",
        b"bp_completed_create_steps",
        b"bp_new_group_id",
        b"duo_secure_wordpress_auth_cookie",
        b"duo_wordpress_auth_cookie",
        b"edd_items_in_cart",
        b"mp_session",
        b"woocommerce_cart_hash",
        b"woocommerce_items_in_cart",
        b"wordpress_no_cache",
        b"wpsc_customer_cookie",
        b"xf_session",
        b"xf_user",
    ],
    &[
        b"SimpleSAML",
        b"bp-message",
        b"comment_author_",
        b"ecwid",
        b"it_exchange_session_",
        b"mp_globalcart_",
        b"wordpress_logged_in_",
        b"wordpress_rec_",
        b"wordpress_sec_",
        b"wordpresspass_",
        b"wordpressuser_",
        b"wp-postpass_",
        b"wp-resetpass-",
        b"wp_woocommerce_session_",
        b"yith_wcwl_session_",
    ],
);

pub(super) static VARY_COOKIES: NameList = NameList::new(
    &[
        b"aelia_cs_selected_currency",
        b"aelia_customer_country",
        b"akm_mobile",
        b"wcml_client_currency",
        b"wptouch_switch_toggle",
    ],
    &[b"woocs_"],
);

pub(super) static TRACKING: NameList = NameList::new(
    &[
        b"_branch_match_id",
        b"_ga",
        b"_gl",
        b"_hsenc",
        b"_hsmi",
        b"_ke",
        b"_kx",
        b"_openstat",
        b"adgroupid",
        b"adid",
        b"age-verified",
        b"campaignid",
        b"cjevent",
        b"ck_subscriber_id",
        b"cn-reloaded",
        b"dclid",
        b"dm_i",
        b"ef_id",
        b"epik",
        b"fb_action_ids",
        b"fb_action_types",
        b"fb_source",
        b"fbclid",
        b"gad_campaignid",
        b"gad_source",
        b"gbraid",
        b"gclid",
        b"gclsrc",
        b"gdffi",
        b"gdfms",
        b"gdftrk",
        b"hsCtaTracking",
        b"igsh",
        b"igshid",
        b"irclickid",
        b"li_fat_id",
        b"mc_cid",
        b"mc_eid",
        b"mkt_tok",
        b"mkwid",
        b"msclkid",
        b"oly_anon_id",
        b"oly_enc_id",
        b"pcrid",
        b"rb_clickid",
        b"redirect_log_mongo_id",
        b"redirect_mongo_id",
        b"s_kwcid",
        b"sb_referer_host",
        b"srsltid",
        b"sscid",
        b"ttclid",
        b"twclid",
        b"usqp",
        b"vero_conv",
        b"vero_id",
        b"wbraid",
        b"wickedid",
        b"yclid",
        b"ysclid",
    ],
    &[
        b"__hsfp", b"__hssc", b"__hstc", b"_bta_", b"hsa_", b"matomo_", b"mtm_", b"piwik_", b"pk_",
        b"sc_", b"trk_", b"utm_",
    ],
);

/// Names of PHP variables, in which `.` and space are `_`.
pub(super) static BYPASS_PARAMETERS: NameList = NameList::new(
    &[
        b"LSCWP_CTRL",
        // The REST server reads the method from this parameter, so a GET with it may be any method.
        b"_method",
        b"_ppp",
        b"_wpnonce",
        b"add-to-cart",
        b"bricks",
        b"brizy-edit",
        b"ct_builder",
        b"doing_wp_cron",
        b"download_file",
        b"edd-api",
        b"edd_action",
        b"elementor-preview",
        b"et_fb",
        b"et_pb_preview",
        b"fl_builder",
        b"gf-download",
        b"gf-signature",
        b"logout",
        b"moderation-hash",
        b"nocache",
        b"order-pay",
        b"preview",
        b"preview_id",
        b"preview_nonce",
        b"remove_item",
        b"tve",
        b"unapproved",
        b"undo_item",
        b"vc_editable",
        b"wc-ajax",
        b"wc-api",
        b"wp_customize",
    ],
    &[b"customize_"],
);

pub(super) const BYPASS_SEGMENTS: &[&[u8]] = &[b"edd-sl", b"wc-api", b"wp-admin"];
