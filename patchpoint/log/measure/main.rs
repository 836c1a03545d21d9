//! Tokenises a file NUMBER times with html5ever and prints how many tokens it has: `parse FILE NUMBER`.

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer};

struct Count(u64);

impl TokenSink for Count {
    type Handle = ();

    fn process_token(&mut self, token: Token, _line: u64) -> TokenSinkResult<()> {
        std::hint::black_box(token);
        self.0 += 1;
        TokenSinkResult::Continue
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, number] = arguments.as_slice() else {
        panic!("usage: parse FILE NUMBER");
    };
    let text = std::fs::read_to_string(file).expect("the file can be read");
    let number: u32 = number.parse().expect("NUMBER is a number");
    #[cfg(feature = "sites")]
    patchpoint_log::set_max_level(patchpoint_log::LevelFilter::Off).expect("the keys can be changed");
    let mut tokens = 0;
    for _ in 0..number {
        let mut tokenizer = Tokenizer::new(Count(0), Default::default());
        let mut input = BufferQueue::default();
        input.push_back(StrTendril::from(text.as_str()));
        let _ = tokenizer.feed(&mut input);
        tokenizer.end();
        tokens += tokenizer.sink.0;
    }
    println!("{tokens}");
}
