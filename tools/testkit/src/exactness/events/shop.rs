//! What is done to products, orders and coupons of the shop. Each event has products of its own.

use super::{API, Act, FORM, LINK, REST, VISITOR, act};
use crate::{TestkitError, client::Request, exactness::editor::Editor};

pub(super) const ACTS: &[Act] = &[
    act("price", API, "price of a product", |e| {
        product(e, "assam", r#"{"regular_price":"7.50"}"#)
    }),
    act(
        "sale-price",
        API,
        "a sale of a product begins at once",
        |e| product(e, "ethiopia", r#"{"sale_price":"11.00"}"#),
    ),
    act(
        "sale-begins",
        "wp-cron.php",
        "a scheduled sale begins",
        |e| time_comes(e, "hojicha", "_sale_price_dates_from"),
    ),
    act("sale-ends", "wp-cron.php", "a sale ends", |e| {
        time_comes(e, "jasmine", "_sale_price_dates_to")
    }),
    act("stock-order", VISITOR, "an order at the checkout", |e| {
        checkout(e, "[[product.darjeeling]]", 4)
    }),
    act(
        "stock-last",
        VISITOR,
        "an order takes the last of a product",
        |e| checkout(e, "[[product.charts]]", 2),
    ),
    act("stock-variation", VISITOR, "an order of a variation", |e| {
        checkout(e, "[[variation.anchor-mug.1]]", 1)
    }),
    act("stock-edit", FORM, "stock in the product's form", |e| {
        e.form(
            "/wp-admin/post.php",
            "update-post_[[product.guatemala]]",
            &[
                ("action", "editpost"),
                ("post_type", "product"),
                ("post_ID", "[[product.guatemala]]"),
                ("post_title", "Guatemala"),
                ("content", "Guatemala, from our shelves."),
                ("post_status", "publish"),
                ("original_post_status", "publish"),
                ("comment_status", "open"),
                ("_regular_price", "19"),
                ("_stock", "14"),
            ],
        )
    }),
    act("stock-number", API, "stock of a product", |e| {
        product(e, "honduras", r#"{"stock_quantity":"31"}"#)
    }),
    act("stock-out", API, "a product sold out", |e| {
        product(e, "genmaicha", r#"{"stock_quantity":"0"}"#)
    }),
    act("stock-back", API, "a product in stock again", |e| {
        product(e, "peru", r#"{"stock_quantity":"12"}"#)
    }),
    act(
        "variation-price",
        API,
        "price of the dearest variation",
        |e| variation(e, "beacon-mug", 2, r#"{"regular_price":"18"}"#),
    ),
    act("variation-middle", API, "price of another variation", |e| {
        variation(e, "compass-mug", 1, r#"{"regular_price":"13"}"#)
    }),
    act("variation-stock", API, "stock of a variation", |e| {
        variation(e, "compass-mug", 0, r#"{"stock_quantity":"5"}"#)
    }),
    act("variation-out", API, "a variation sold out", |e| {
        variation(e, "beacon-mug", 0, r#"{"stock_quantity":"0"}"#)
    }),
    act("order-placed", API, "an order that is not paid", |e| {
        e.api(
            "POST",
            "wc/v3/orders",
            r#"{"items":{"[[product.dinghy-mug]]":1}}"#,
        )
    })
    .changes_nothing(),
    act("order-paid", API, "that is, one of them, paid", |e| {
        order(e, "pending", "processing")
    }),
    act("order-completed", API, "an order completed", |e| {
        order(e, "completed", "completed")
    })
    .changes_nothing(),
    act("order-cancelled", API, "an order cancelled", |e| {
        order(e, "cancelled", "cancelled")
    }),
    act("order-refunded", API, "an order paid back", |e| {
        order(e, "refunded", "refunded")
    }),
    act("coupon-new", API, "a new coupon", |e| {
        e.api(
            "POST",
            "wc/v3/coupons",
            r#"{"code":"spring5","amount":"5"}"#,
        )
    })
    .changes_nothing(),
    act("coupon-amount", API, "amount of a coupon", |e| {
        e.api(
            "POST",
            "wc/v3/coupons/[[order.coupon]]",
            r#"{"amount":"12"}"#,
        )
    })
    .changes_nothing(),
    act("product-new", API, "a new product", |e| {
        e.api(
            "POST",
            "wc/v3/products",
            r#"{"name":"Oolong","slug":"oolong","date_created":"2024-06-01 12:00:00","description":"Oolong, from our shelves.","regular_price":"21","manage_stock":"yes","stock_quantity":"6","category_ids":[ [[product_cat.tea]] ]}"#,
        )
    }),
    act("product-trash", LINK, "a product into the trash", |e| {
        e.link(
            "/wp-admin/post.php?post=[[product.weather-book]]&action=trash",
            "trash-post_[[product.weather-book]]",
        )
    }),
    act("product-draft", API, "a product back to draft", |e| {
        product(e, "keel-mug", r#"{"status":"draft"}"#)
    }),
    act("product-name", API, "name of a product", |e| {
        product(e, "almanac", r#"{"name":"Almanac of tides"}"#)
    }),
    act("product-text", REST, "description of a product", |e| {
        e.rest(
            "POST",
            "product/[[product.tide-tables]]",
            r#"{"content":"For all ports of the bay."}"#,
        )
    }),
    act("product-picture", API, "picture of a product", |e| {
        product(e, "earl-grey", r#"{"image_id":[[media.2]]}"#)
    }),
    act(
        "product-category",
        API,
        "another category of a product",
        |e| {
            product(
                e,
                "book-of-knots",
                r#"{"category_ids":[ [[product_cat.mugs]] ]}"#,
            )
        },
    ),
    act("product-featured", API, "a product featured", |e| {
        product(e, "kenya", r#"{"visibility":[]}"#)
    }),
    act(
        "product-hidden",
        API,
        "a product hidden from the catalogue",
        |e| product(e, "gull-mug", r#"{"visibility":["exclude-from-catalog"]}"#),
    ),
    act("review", VISITOR, "a review with stars", review),
    act(
        "product-term",
        FORM,
        "name of a category of products",
        |e| {
            e.form(
                "/wp-admin/edit-tags.php",
                "update-tag_[[product_cat.books]]",
                &[
                    ("action", "editedtag"),
                    ("taxonomy", "product_cat"),
                    ("tag_ID", "[[product_cat.books]]"),
                    ("name", "Printed"),
                    ("slug", "books"),
                    ("parent", "-1"),
                    ("description", ""),
                ],
            )
        },
    ),
    act("product-attribute", REST, "name of a colour", |e| {
        e.rest(
            "POST",
            "pa_colour/[[pa_colour.green]]",
            r#"{"name":"Sea green"}"#,
        )
    }),
];

/// A change of a product by the interface of the shop.
fn product(e: &mut Editor<'_>, name: &str, body: &str) -> Result<(), TestkitError> {
    e.api("POST", &format!("wc/v3/products/[[product.{name}]]"), body)
}

/// A change of a variation, by its place.
fn variation(e: &mut Editor<'_>, name: &str, place: usize, body: &str) -> Result<(), TestkitError> {
    let target =
        format!("wc/v3/products/[[product.{name}]]/variations/[[variation.{name}.{place}]]");
    e.api("POST", &target, body)
}

fn order(e: &mut Editor<'_>, name: &str, status: &str) -> Result<(), TestkitError> {
    let body = format!(r#"{{"status":"{status}"}}"#);
    e.api("POST", &format!("wc/v3/orders/[[order.{name}]]"), &body)
}

/// An order of somebody without cookies, paid at once.
fn checkout(e: &Editor<'_>, product: &str, quantity: usize) -> Result<(), TestkitError> {
    let body = e
        .site
        .fill(&format!("product={product}&quantity={quantity}"))?;
    let form = "application/x-www-form-urlencoded";
    e.stranger(Request::post("/?wc-ajax=checkout", form, body))
        .map(drop)
}

/// A moment of a sale that was far away is over, and the task that looks for such runs.
fn time_comes(e: &mut Editor<'_>, name: &str, field: &str) -> Result<(), TestkitError> {
    // Past the functions of WordPress: time passes without an edit.
    e.command_line(&format!(
        "$GLOBALS['wpdb']->query( \"UPDATE {{$GLOBALS['wpdb']->postmeta}} SET meta_value = '1000' WHERE post_id = [[product.{name}]] AND meta_key = '{field}'\" ); \
         _set_cron_array( array() ); wp_schedule_single_event( time() - 60, 'woocommerce_scheduled_sales' );"
    ))?;
    e.stranger(Request::get("/wp-cron.php?doing_wp_cron"))?;
    e.site.wait_for_cron()
}

/// Of a visitor whose comments are approved already.
fn review(e: &mut Editor<'_>) -> Result<(), TestkitError> {
    let body = e.site.fill(
        "comment_post_ID=[[product.mexico]]&comment_parent=0&author=Anneke&email=anneke%40example.org&url=&comment=Good.&rating=4",
    )?;
    let form = "application/x-www-form-urlencoded";
    e.stranger(Request::post("/wp-comments-post.php", form, body))
        .map(drop)
}
