//! Events on the settings of the shop: its page in the administration, and tax rates.

use super::{AJAX, Event, FORM, event};
use crate::{TestkitError, exactness::editor::Editor};

pub(super) const EVENTS: &[Event] = &[
    event("shop-shipping", FORM, "cost of shipping", |e| {
        setting(e, "woocommerce_flat_rate_1_settings[cost]", "6")
    })
    .changes_nothing(),
    event(
        "shop-stock-format",
        FORM,
        "stock shown without a number",
        |e| setting(e, "woocommerce_stock_format", "no_amount"),
    ),
    event(
        "shop-hide-sold-out",
        FORM,
        "catalogue without sold-out products",
        |e| setting(e, "woocommerce_hide_out_of_stock_items", "yes"),
    ),
    event("shop-tax-rate", AJAX, "a tax rate", |e| {
        e.form_with(
            "/wp-admin/admin-ajax.php",
            ("wc_tax_nonce", "wc_tax_nonce-class:standard"),
            &[
                ("action", "woocommerce_tax_rates_save_changes"),
                ("tax_rate", "10"),
            ],
        )
    }),
    event("shop-tax-display", FORM, "prices shown without tax", |e| {
        setting(e, "woocommerce_tax_display_shop", "excl")
    }),
    event("shop-currency", FORM, "currency", |e| {
        setting(e, "woocommerce_currency", "GBP")
    }),
];

fn setting(e: &mut Editor<'_>, name: &str, value: &str) -> Result<(), TestkitError> {
    e.form(
        "/wp-admin/admin.php?page=wc-settings",
        "woocommerce-settings",
        &[(name, value)],
    )
}
