//! A document as a mail of 72 columns.

use super::text;
use crate::document::Document;
use crate::page::{PLAIN, Page};
use crate::style::Style;
use opcost_record::printable::{Output, safe};

/// Width of a mail, in columns (the kernel's documentation on submitting patches asks for 75 at most).
pub const MAIL_WIDTH: usize = 72;

/// Renders a document as a mail: subject and copies, then the text without colour.
pub fn mail(document: &Document, style: &Style) -> String {
    let style = Style { color: false, width: MAIL_WIDTH, ascii: false, ..*style };
    let mut page = Page::tight(&style);
    if let Some(head) = &document.mail {
        // A long subject is folded: lines that begin with spaces continue it (RFC 5322, section 2.2.3).
        page.wrap(PLAIN, "Subject: ", &head.subject);
        let mailboxes = head.cc.iter().map(|person| safe(person, Output::Mailbox));
        for mailbox in mailboxes.filter(|mailbox| !mailbox.is_empty()) {
            page.line(&format!("Cc: {mailbox}"));
        }
        page.line("");
    }
    text::write(&mut page, document);
    let trailers = document.mail.iter().flat_map(|head| &head.trailers);
    for (at, trailer) in trailers.enumerate() {
        if at == 0 {
            page.line("");
        }
        page.line(&safe(trailer, Output::Line));
    }
    page.into_text()
}
