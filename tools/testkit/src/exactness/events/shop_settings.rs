//! Settings of the shop: on its own page of the administration, and its tax rates.

use super::{AJAX, Act, FORM, act};
use crate::{TestkitError, exactness::editor::Editor};

pub(super) const ACTS: &[Act] = &[
    act("shop-shipping", FORM, "cost of shipping", |e| {
        setting(e, "woocommerce_flat_rate_1_settings[cost]", "6")
    })
    .changes_nothing(),
    act(
        "shop-stock-format",
        FORM,
        "stock shown without a number",
        |e| setting(e, "woocommerce_stock_format", "no_amount"),
    ),
    act(
        "shop-hide-sold-out",
        FORM,
        "catalogue without what is sold out",
        |e| setting(e, "woocommerce_hide_out_of_stock_items", "yes"),
    ),
    act("shop-tax-rate", AJAX, "a tax rate", |e| {
        e.form_with(
            "/wp-admin/admin-ajax.php",
            ("wc_tax_nonce", "wc_tax_nonce-class:standard"),
            &[
                ("action", "woocommerce_tax_rates_save_changes"),
                ("tax_rate", "10"),
            ],
        )
    }),
    act("shop-tax-display", FORM, "prices shown without tax", |e| {
        setting(e, "woocommerce_tax_display_shop", "excl")
    }),
    act("shop-currency", FORM, "currency", |e| {
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
