//! Events on products, orders and coupons of the shop. Each event uses different products.

use super::{API, Event, FORM, LINK, REST, VISITOR, event};
use crate::{TestkitError, client::Request, exactness::editor::Editor};

pub(super) const EVENTS: &[Event] = &[
    event("price", API, "price of a product", |e| {
        product(e, "assam", r#"{"regular_price":"7.50"}"#)
    }),
    event(
        "sale-price",
        API,
        "a sale of a product starts immediately",
        |e| product(e, "ethiopia", r#"{"sale_price":"11.00"}"#),
    ),
    event(
        "sale-begins",
        "wp-cron.php",
        "a scheduled sale begins",
        |e| make_sale_date_due(e, "hojicha", "_sale_price_dates_from"),
    ),
    event("sale-ends", "wp-cron.php", "a sale ends", |e| {
        make_sale_date_due(e, "jasmine", "_sale_price_dates_to")
    }),
    event("stock-order", VISITOR, "an order at the checkout", |e| {
        checkout(e, "[[product.darjeeling]]", 4)
    }),
    event(
        "stock-last",
        VISITOR,
        "an order takes the last of a product",
        |e| checkout(e, "[[product.charts]]", 2),
    ),
    event("stock-variation", VISITOR, "an order of a variation", |e| {
        checkout(e, "[[variation.anchor-mug.1]]", 1)
    }),
    event("stock-edit", FORM, "stock in the product's form", |e| {
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
    event("stock-number", API, "stock of a product", |e| {
        product(e, "honduras", r#"{"stock_quantity":"31"}"#)
    }),
    event("stock-out", API, "a product sold out", |e| {
        product(e, "genmaicha", r#"{"stock_quantity":"0"}"#)
    }),
    event("stock-back", API, "a product in stock again", |e| {
        product(e, "peru", r#"{"stock_quantity":"12"}"#)
    }),
    event(
        "variation-price",
        API,
        "price of the most expensive variation",
        |e| variation(e, "beacon-mug", 2, r#"{"regular_price":"18"}"#),
    ),
    event("variation-middle", API, "price of another variation", |e| {
        variation(e, "compass-mug", 1, r#"{"regular_price":"13"}"#)
    }),
    event("variation-stock", API, "stock of a variation", |e| {
        variation(e, "compass-mug", 0, r#"{"stock_quantity":"5"}"#)
    }),
    event("variation-out", API, "a variation sold out", |e| {
        variation(e, "beacon-mug", 0, r#"{"stock_quantity":"0"}"#)
    }),
    event("order-placed", API, "an order that is not paid", |e| {
        e.api(
            "POST",
            "wc/v3/orders",
            r#"{"items":{"[[product.dinghy-mug]]":1}}"#,
        )
    })
    .changes_nothing(),
    event("order-paid", API, "a pending order paid", |e| {
        order(e, "pending", "processing")
    }),
    event("order-completed", API, "an order completed", |e| {
        order(e, "completed", "completed")
    })
    .changes_nothing(),
    event("order-cancelled", API, "an order cancelled", |e| {
        order(e, "cancelled", "cancelled")
    }),
    event("order-refunded", API, "an order refunded", |e| {
        order(e, "refunded", "refunded")
    }),
    event("coupon-new", API, "a new coupon", |e| {
        e.api(
            "POST",
            "wc/v3/coupons",
            r#"{"code":"spring5","amount":"5"}"#,
        )
    })
    .changes_nothing(),
    event("coupon-amount", API, "amount of a coupon", |e| {
        e.api(
            "POST",
            "wc/v3/coupons/[[order.coupon]]",
            r#"{"amount":"12"}"#,
        )
    })
    .changes_nothing(),
    event("product-new", API, "a new product", |e| {
        e.api(
            "POST",
            "wc/v3/products",
            r#"{"name":"Oolong","slug":"oolong","date_created":"2024-06-01 12:00:00","description":"Oolong, from our shelves.","regular_price":"21","manage_stock":"yes","stock_quantity":"6","category_ids":[ [[product_cat.tea]] ]}"#,
        )
    }),
    event("product-trash", LINK, "a product moved to the trash", |e| {
        e.link(
            "/wp-admin/post.php?post=[[product.weather-book]]&action=trash",
            "trash-post_[[product.weather-book]]",
        )
    }),
    event("product-draft", API, "a product back to draft", |e| {
        product(e, "keel-mug", r#"{"status":"draft"}"#)
    }),
    event("product-name", API, "name of a product", |e| {
        product(e, "almanac", r#"{"name":"Almanac of tides"}"#)
    }),
    event("product-text", REST, "description of a product", |e| {
        e.rest(
            "POST",
            "product/[[product.tide-tables]]",
            r#"{"content":"For all ports of the bay."}"#,
        )
    }),
    event("product-picture", API, "image of a product", |e| {
        product(e, "earl-grey", r#"{"image_id":[[media.2]]}"#)
    }),
    event(
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
    event("product-featured", API, "a product featured", |e| {
        product(e, "kenya", r#"{"visibility":[]}"#)
    }),
    event(
        "product-hidden",
        API,
        "a product hidden from the catalogue",
        |e| product(e, "gull-mug", r#"{"visibility":["exclude-from-catalog"]}"#),
    ),
    event("review", VISITOR, "a review with stars", review),
    event(
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
    event("product-attribute", REST, "name of a colour", |e| {
        e.rest(
            "POST",
            "pa_colour/[[pa_colour.green]]",
            r#"{"name":"Sea green"}"#,
        )
    }),
];

/// Changes a product through the REST API of the shop.
fn product(e: &mut Editor<'_>, name: &str, body: &str) -> Result<(), TestkitError> {
    e.api("POST", &format!("wc/v3/products/[[product.{name}]]"), body)
}

/// Changes the variation with this index.
fn variation(e: &mut Editor<'_>, name: &str, index: usize, body: &str) -> Result<(), TestkitError> {
    let target =
        format!("wc/v3/products/[[product.{name}]]/variations/[[variation.{name}.{index}]]");
    e.api("POST", &target, body)
}

fn order(e: &mut Editor<'_>, name: &str, status: &str) -> Result<(), TestkitError> {
    let body = format!(r#"{{"status":"{status}"}}"#);
    e.api("POST", &format!("wc/v3/orders/[[order.{name}]]"), &body)
}

/// Places an order without cookies, which is paid immediately.
fn checkout(e: &Editor<'_>, product: &str, quantity: usize) -> Result<(), TestkitError> {
    let body = e
        .site
        .substitute_ids(&format!("product={product}&quantity={quantity}"))?;
    let form = "application/x-www-form-urlencoded";
    e.send_as_visitor(Request::post("/?wc-ajax=checkout", form, body))
        .map(drop)
}

/// Moves a date of a sale into the past and runs the task that starts and ends sales.
fn make_sale_date_due(e: &mut Editor<'_>, name: &str, field: &str) -> Result<(), TestkitError> {
    // Bypasses the functions of WordPress, because time passes without an edit.
    e.command_line(&format!(
        "$GLOBALS['wpdb']->query( \"UPDATE {{$GLOBALS['wpdb']->postmeta}} SET meta_value = '1000' WHERE post_id = [[product.{name}]] AND meta_key = '{field}'\" ); \
         _set_cron_array( array() ); wp_schedule_single_event( time() - 60, 'woocommerce_scheduled_sales' );"
    ))?;
    e.send_as_visitor(Request::get("/wp-cron.php?doing_wp_cron"))?;
    e.site.wait_for_cron()
}

/// Submits a review by a visitor who has approved comments.
fn review(e: &mut Editor<'_>) -> Result<(), TestkitError> {
    let body = e.site.substitute_ids(
        "comment_post_ID=[[product.mexico]]&comment_parent=0&author=Anneke&email=anneke%40example.org&url=&comment=Good.&rating=4",
    )?;
    let form = "application/x-www-form-urlencoded";
    e.send_as_visitor(Request::post("/wp-comments-post.php", form, body))
        .map(drop)
}
