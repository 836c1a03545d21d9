//! Reads what Instruments' `xctrace export --xpath '…/table[@schema="time-profile"]'` writes: XML with a row for each sample.
//!
//! An element with a number (`id`) is written once; later ones refer to it (`ref`).

use super::about::{About, EventAbout};
use super::stack::Stacks;
use super::text::TextError;
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_symbols::demangle::{demangle, printable};
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// The elements with what a sample stands for, and the name of their event; the first one's unit is a nanosecond.
const WEIGHTS: [(&str, &str); 2] = [("weight", "time"), ("cycle-weight", "cycles")];

/// Whether a text looks like xctrace's.
pub fn is_xctrace(text: &str) -> bool {
    let end = text.char_indices().nth(400).map_or(text.len(), |(end, _)| end);
    text[..end].contains("<trace-query-result>")
}

/// An element's attributes.
#[derive(Default)]
struct Attributes {
    id: Option<String>,
    reference: Option<String>,
    name: String,
    path: String,
}

impl Attributes {
    fn of(element: &BytesStart<'_>) -> Result<Attributes, TextError> {
        let mut found = Attributes::default();
        for attribute in element.attributes() {
            let attribute = attribute.map_err(|error| TextError::Content(error.to_string()))?;
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| TextError::Content(error.to_string()))?;
            match attribute.key.as_ref() {
                "id" => found.id = Some(value.into_owned()),
                "ref" => found.reference = Some(value.into_owned()),
                "name" => found.name = value.into_owned(),
                "path" => found.path = value.into_owned(),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The state of reading.
#[derive(Default)]
struct XctraceReader {
    binaries: KeyedMap<String, String>,
    frames: KeyedMap<String, u32>,
    backtraces: KeyedMap<String, Vec<u32>>,
    weights: KeyedMap<String, u64>,
    /// The frame that is open: its number and name, and its binary.
    frame: Option<(Attributes, String)>,
    /// The numbers of the backtraces that are open: a tagged one holds another.
    open: Vec<Option<String>>,
    /// The number of the weight that is open.
    weight: Option<Option<String>>,
    text: String,
    /// The row's stack, innermost first, and its cost.
    stack: Option<Vec<u32>>,
    cost: Option<u64>,
    /// Index into [`WEIGHTS`].
    kind: Option<usize>,
}

/// Reads the text.
///
/// `event`: the event that is wanted; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: XML of another form, a reference to something that is missing, another event, no samples; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let mut reader = Reader::from_str(text);
    let mut reading = XctraceReader::default();
    let mut stacks = Stacks::new(budget);
    let mut at = 0;
    loop {
        let event = reader.read_event().map_err(|error| match error {
            quick_xml::Error::Syntax(error) => TextError::Cut(error.to_string()),
            error => TextError::Content(format!("at byte {}: {error}", reader.error_position())),
        })?;
        let now = reader.buffer_position();
        budget.step(now - at + 32)?;
        at = now;
        match event {
            Event::Start(element) => reading.start(&element)?,
            Event::Empty(element) => {
                reading.start(&element)?;
                reading.end(element.name().as_ref(), &mut stacks)?;
            }
            Event::End(element) => reading.end(element.name().as_ref(), &mut stacks)?,
            Event::Text(text) if reading.weight.is_some() => {
                reading.text += &text;
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if text.trim_end().rsplit('<').next() != Some("/trace-query-result>") {
        return Err(TextError::Cut("the end of trace-query-result is missing".into()));
    }
    let kind = reading.kind.unwrap_or(0);
    let known = WEIGHTS[kind].1;
    if let Some(wanted) = event.filter(|wanted| *wanted != known) {
        return Err(TextError::no_event(wanted, &[known.to_string()]));
    }
    stacks.finish(About {
        format: "Instruments",
        sampling: Some(EventAbout {
            clock: kind == 0,
            with_callers: true,
            ..EventAbout::default()
        }),
        event: known.into(),
        events: vec![known.into()],
        ..About::default()
    })
}

fn missing(what: &str, id: &str) -> TextError {
    TextError::Cut(format!("{what} {} is not in it", printable(id)))
}

impl XctraceReader {
    fn start(&mut self, element: &BytesStart<'_>) -> Result<(), TextError> {
        let name = element.name();
        match name.as_ref() {
            "row" => (self.stack, self.cost) = (None, None),
            "binary" => {
                let Attributes { id, reference, name, path } = Attributes::of(element)?;
                let module = match reference {
                    Some(id) => {
                        self.binaries.get(&id).ok_or_else(|| missing("binary", &id))?.clone()
                    }
                    None => printable(if path.is_empty() { &name } else { &path }),
                };
                if let Some(id) = id {
                    self.binaries.insert(id, module.clone());
                }
                if let Some((_, of)) = &mut self.frame {
                    *of = module;
                }
            }
            "frame" => self.frame = Some((Attributes::of(element)?, String::new())),
            "backtrace" | "tagged-backtrace" => {
                let Attributes { id, reference, .. } = Attributes::of(element)?;
                if let Some(id) = reference {
                    let known =
                        self.backtraces.get(&id).ok_or_else(|| missing("backtrace", &id))?;
                    self.stack = Some(known.clone());
                } else if self.open.is_empty() {
                    self.stack = Some(Vec::new());
                }
                self.open.push(id);
            }
            name => {
                let kind = WEIGHTS.iter().position(|(weight, _)| *weight == name);
                if let Some(kind) = kind {
                    self.kind.get_or_insert(kind);
                    let Attributes { id, reference, .. } = Attributes::of(element)?;
                    match reference {
                        Some(id) => {
                            let known = self.weights.get(&id);
                            self.cost = Some(*known.ok_or_else(|| missing("weight", &id))?);
                        }
                        None => self.weight = Some(id),
                    }
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, name: &str, stacks: &mut Stacks<'_>) -> Result<(), TextError> {
        match name {
            "frame" => {
                let Some((Attributes { id, reference, name, .. }, module)) = self.frame.take()
                else {
                    return Ok(());
                };
                let number = match reference {
                    Some(id) => *self.frames.get(&id).ok_or_else(|| missing("frame", &id))?,
                    None => {
                        let symbol = match name.strip_prefix("0x") {
                            Some(_) => "[text]".to_string(),
                            None => demangle(&name),
                        };
                        let number = stacks.function(Function::new(symbol, module));
                        if let Some(id) = id {
                            self.frames.insert(id, number);
                        }
                        number
                    }
                };
                if let Some(stack) = self.stack.as_mut().filter(|_| !self.open.is_empty()) {
                    stack.push(number);
                }
            }
            "backtrace" | "tagged-backtrace" => {
                if let (Some(Some(id)), Some(stack)) = (self.open.pop(), &self.stack) {
                    self.backtraces.insert(id, stack.clone());
                }
            }
            "row" => {
                let Some(mut stack) = self.stack.take() else {
                    stacks.losses.unmapped_samples += 1;
                    return Ok(());
                };
                stack.reverse();
                stacks.add(&stack, self.cost.take().unwrap_or(0), 1, false)?;
            }
            _ => {
                if let Some(id) = self.weight.take() {
                    let text = std::mem::take(&mut self.text);
                    let other = || TextError::Content(format!("{text:?} is no weight of a sample"));
                    let cost = text.trim().parse().map_err(|_| other())?;
                    self.cost = Some(cost);
                    if let Some(id) = id {
                        self.weights.insert(id, cost);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    /// Made by hand after the format's description.
    const TEXT: &str = include_str!("../../tests/data/instruments.xml");

    fn rows(text: &str) -> Result<Vec<String>, String> {
        let (_, sampled) =
            read(text, None, &Budget::default()).map_err(|error| error.to_string())?;
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| {
            let Function { symbol, module, .. } = &cost.function;
            format!("{symbol}@{module} {} {:?}", cost.own / 1_000_000, cost.samples)
        };
        Ok(table.functions.iter().map(row).collect())
    }

    #[test]
    fn references_lead_to_what_was_written_before() {
        assert!(is_xctrace(TEXT));
        let expected =
            ["[text]@ 3 Some(2)", "a <T>@/bin/work 2 Some(2)", "main@/bin/work 0 Some(0)"];
        assert_eq!(rows(TEXT).unwrap(), expected);
        let error = read(TEXT, Some("cycles"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event cycles; it has time");
    }

    #[test]
    fn faults_are_named() {
        let fault = |from: &str, to: &str| rows(&TEXT.replacen(from, to, 1)).unwrap_err();
        assert!(fault("<frame ref=\"13\"", "<frame ref=\"99\"").contains("frame 99 is not in it"));
        assert!(fault("<weight ref=\"9\"", "<weight ref=\"8\"").contains("weight 8 is not in it"));
        assert!(fault("<backtrace ref=\"10\"", "<backtrace ref=\"1\"").contains("backtrace 1 is"));
        assert!(fault("<binary ref=\"12\"", "<binary ref=\"1\"").contains("binary 1 is not in it"));
        assert!(fault(">1000000<", ">much<").contains("is no weight"));
        assert!(rows(&TEXT[..TEXT.len() - 60]).unwrap_err().contains("cut short"));
        assert!(fault("</row>", "</rows>").contains("at byte"));
    }
}
