//! A small Lisp: closures and tail calls, its continuations frames on the heap. Each program beside
//! this file has it as a module, and says before what a `Pointer` is, how `new` and `take` work on
//! one, and what `objects!` puts before the types of objects.
//!
//! Invariant: the text is the same for all; a value is cloned where it is kept twice, and what is
//! used up is moved. Runs `lisp.scm`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use neap_bench_rust::{Outcome, argument};

use super::{Pointer, is, new, take};

objects! {
    #[derive(Clone)]
    enum Value {
        Nil,
        Bool(bool),
        Int(i64),
        Text(Pointer<str>),
        Symbol(Pointer<Symbol>),
        Pair(Pointer<Pair>),
        Closure(Pointer<Closure>),
        Builtin(Builtin),
    }

    #[derive(Clone)]
    struct Pair {
        head: Value,
        tail: Value,
    }

    #[derive(Clone, Copy)]
    enum Builtin { Add, Subtract, Less, Equal, Modulo, Cons, Head, Tail, IsNil, Append, Show }

    #[derive(Clone, Copy)]
    enum Form { Quote, If, Lambda, Define, Begin }

    struct Symbol {
        form: Option<Form>,
        global: RefCell<Option<Value>>,
    }

    struct Closure {
        parameters: Value,
        body: Value,
        environment: Environment,
    }

    struct Binding {
        symbol: Pointer<Symbol>,
        value: Value,
        outer: Environment,
    }

    /// What is to be done with a value, and what after that.
    #[derive(Clone)]
    struct Frame {
        step: Step,
        environment: Environment,
        next: Frames,
    }

    #[derive(Clone)]
    enum Step {
        If { branches: Value },
        Begin { rest: Value },
        Define { symbol: Pointer<Symbol> },
        /// Function and arguments so far, last first, and what is still to be evaluated.
        Call { done: Value, rest: Value },
    }
}

type Environment = Option<Pointer<Binding>>;
type Frames = Option<Pointer<Frame>>;

fn cons(head: Value, tail: Value) -> Value {
    Value::Pair(new(Pair { head, tail }))
}

impl Value {
    fn pair(&self) -> &Pair {
        match self {
            Value::Pair(pair) => pair,
            _ => panic!("a pair was expected"),
        }
    }

    fn into_pair(self) -> Pair {
        match self {
            Value::Pair(pair) => take(pair),
            _ => panic!("a pair was expected"),
        }
    }

    fn int(&self) -> i64 {
        match self {
            Value::Int(number) => *number,
            _ => panic!("a number was expected"),
        }
    }

    fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            _ => panic!("a text was expected"),
        }
    }

    fn symbol(&self) -> &Pointer<Symbol> {
        match self {
            Value::Symbol(symbol) => symbol,
            _ => panic!("a symbol was expected"),
        }
    }
}

const BUILTINS: [(&str, Builtin); 11] = [
    ("+", Builtin::Add),
    ("-", Builtin::Subtract),
    ("<", Builtin::Less),
    ("=", Builtin::Equal),
    ("modulo", Builtin::Modulo),
    ("cons", Builtin::Cons),
    ("car", Builtin::Head),
    ("cdr", Builtin::Tail),
    ("null?", Builtin::IsNil),
    ("append-text", Builtin::Append),
    ("show", Builtin::Show),
];

const FORMS: [(&str, Form); 5] = [
    ("quote", Form::Quote),
    ("if", Form::If),
    ("lambda", Form::Lambda),
    ("define", Form::Define),
    ("begin", Form::Begin),
];

/// Symbols by name.
struct Reader {
    symbols: HashMap<String, Pointer<Symbol>>,
}

impl Reader {
    fn new() -> Self {
        let mut symbols = HashMap::new();
        for (name, form) in FORMS {
            symbols.insert(name.into(), new(Symbol { form: Some(form), global: None.into() }));
        }
        for (name, builtin) in BUILTINS {
            let global = RefCell::new(Some(Value::Builtin(builtin)));
            symbols.insert(name.into(), new(Symbol { form: None, global }));
        }
        Self { symbols }
    }

    fn intern(&mut self, name: &str) -> Pointer<Symbol> {
        let fresh = || new(Symbol { form: None, global: None.into() });
        self.symbols.entry(name.into()).or_insert_with(fresh).clone()
    }

    fn read<'text>(&mut self, tokens: &mut impl Iterator<Item = &'text str>) -> Option<Value> {
        Some(match tokens.next()? {
            "(" => {
                let items: Vec<_> = std::iter::from_fn(|| self.read(tokens)).collect();
                items.into_iter().rev().fold(Value::Nil, |list, item| cons(item, list))
            }
            ")" => return None,
            text if text.starts_with('"') => Value::Text(text.trim_matches('"').into()),
            name => match name.parse() {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Symbol(self.intern(name)),
            },
        })
    }
}

/// What the machine does next.
enum State {
    Evaluate(Value, Environment),
    Return(Value),
}

struct Machine {
    frames: Frames,
    /// Of the call that is made now.
    arguments: Vec<Value>,
    /// Of all that was shown.
    check: u64,
}

impl Machine {
    fn run(&mut self, program: Value) {
        let mut state = State::Evaluate(program, None);
        loop {
            state = match state {
                State::Evaluate(expression, environment) => self.evaluate(expression, environment),
                State::Return(value) => match self.frames.take() {
                    None => return,
                    Some(frame) => {
                        let frame = take(frame);
                        self.frames = frame.next;
                        self.go_on(frame.step, frame.environment, value)
                    }
                },
            };
        }
    }

    fn push(&mut self, step: Step, environment: Environment) {
        let next = self.frames.take();
        self.frames = Some(new(Frame { step, environment, next }));
    }

    fn evaluate(&mut self, expression: Value, environment: Environment) -> State {
        let Pair { head, tail } = match expression {
            Value::Pair(pair) => take(pair),
            Value::Symbol(symbol) => return State::Return(value_of(&symbol, &environment)),
            value => return State::Return(value),
        };
        let form = if let Value::Symbol(symbol) = &head { symbol.form } else { None };
        match form {
            Some(Form::Quote) => State::Return(tail.pair().head.clone()),
            Some(Form::If) => {
                let Pair { head: condition, tail: branches } = tail.into_pair();
                self.push(Step::If { branches }, environment.clone());
                State::Evaluate(condition, environment)
            }
            Some(Form::Lambda) => {
                let Pair { head: parameters, tail: body } = tail.into_pair();
                State::Return(Value::Closure(new(Closure { parameters, body, environment })))
            }
            Some(Form::Define) => {
                let Pair { head: name, tail } = tail.into_pair();
                self.push(Step::Define { symbol: name.symbol().clone() }, environment.clone());
                State::Evaluate(tail.into_pair().head, environment)
            }
            Some(Form::Begin) => self.begin(tail, environment),
            None => {
                self.push(Step::Call { done: Value::Nil, rest: tail }, environment.clone());
                State::Evaluate(head, environment)
            }
        }
    }

    /// The last expression of a body is evaluated without a frame: a tail call.
    fn begin(&mut self, body: Value, environment: Environment) -> State {
        let Pair { head, tail: rest } = body.into_pair();
        if let Value::Pair(_) = rest {
            self.push(Step::Begin { rest }, environment.clone());
        }
        State::Evaluate(head, environment)
    }

    fn go_on(&mut self, step: Step, environment: Environment, value: Value) -> State {
        match step {
            Step::If { branches } => {
                let Pair { head: then, tail } = branches.into_pair();
                match value {
                    Value::Bool(false) => State::Evaluate(tail.into_pair().head, environment),
                    _ => State::Evaluate(then, environment),
                }
            }
            Step::Begin { rest } => self.begin(rest, environment),
            Step::Define { symbol } => {
                *symbol.global.borrow_mut() = Some(value);
                State::Return(Value::Nil)
            }
            Step::Call { done, rest } => {
                let done = cons(value, done);
                if let Value::Nil = rest {
                    return self.apply(done);
                }
                let Pair { head, tail: rest } = rest.into_pair();
                self.push(Step::Call { done, rest }, environment.clone());
                State::Evaluate(head, environment)
            }
        }
    }

    /// Calls a function with its arguments, which come last first, the function behind them.
    fn apply(&mut self, mut reversed: Value) -> State {
        let mut arguments = std::mem::take(&mut self.arguments);
        while let Value::Pair(pair) = reversed {
            let pair = take(pair);
            arguments.push(pair.head);
            reversed = pair.tail;
        }
        let state = match arguments.pop().expect("a function is called") {
            Value::Builtin(builtin) => {
                arguments.reverse();
                State::Return(self.builtin(builtin, &arguments))
            }
            Value::Closure(closure) => {
                let mut environment = closure.environment.clone();
                let mut parameters = &closure.parameters;
                while let Some(value) = arguments.pop() {
                    let symbol = parameters.pair().head.symbol().clone();
                    environment = Some(new(Binding { symbol, value, outer: environment }));
                    parameters = &parameters.pair().tail;
                }
                self.begin(closure.body.clone(), environment)
            }
            _ => panic!("a function was expected"),
        };
        arguments.clear();
        self.arguments = arguments;
        state
    }

    fn builtin(&mut self, builtin: Builtin, all: &[Value]) -> Value {
        match builtin {
            Builtin::Add => Value::Int(all[0].int() + all[1].int()),
            Builtin::Subtract => Value::Int(all[0].int() - all[1].int()),
            Builtin::Less => Value::Bool(all[0].int() < all[1].int()),
            Builtin::Equal => Value::Bool(all[0].int() == all[1].int()),
            Builtin::Modulo => Value::Int(all[0].int().rem_euclid(all[1].int())),
            Builtin::Cons => cons(all[0].clone(), all[1].clone()),
            Builtin::Head => all[0].pair().head.clone(),
            Builtin::Tail => all[0].pair().tail.clone(),
            Builtin::IsNil => Value::Bool(matches!(all[0], Value::Nil)),
            Builtin::Append => Value::Text([all[0].text(), all[1].text()].concat().as_str().into()),
            Builtin::Show => {
                self.show(&all[0]);
                Value::Nil
            }
        }
    }

    /// Takes a value into the check.
    fn show(&mut self, value: &Value) {
        let number = match value {
            Value::Int(number) => *number as u64,
            Value::Text(text) => text.bytes().map(u64::from).sum(),
            Value::Pair(pair) => {
                self.show(&pair.head);
                return self.show(&pair.tail);
            }
            _ => 1,
        };
        self.check = self.check.wrapping_mul(31).wrapping_add(number);
    }
}

fn value_of(symbol: &Pointer<Symbol>, mut environment: &Environment) -> Value {
    while let Some(binding) = environment {
        if Pointer::ptr_eq(is(&binding.symbol), is(symbol)) {
            return binding.value.clone();
        }
        environment = &binding.outer;
    }
    symbol.global.borrow().clone().expect("a symbol with a value")
}

/// Runs the program, with the first argument (10) as its `rounds`.
pub fn run() -> Outcome {
    let text = include_str!("lisp.scm").replace('(', " ( ").replace(')', " ) ");
    let mut reader = Reader::new();
    let rounds = argument(1, 10) as i64;
    *reader.intern("rounds").global.borrow_mut() = Some(Value::Int(rounds));
    let mut machine = Machine { frames: None, arguments: Vec::new(), check: 0 };
    let began = Instant::now();
    let mut tokens = text.split_whitespace();
    while let Some(expression) = reader.read(&mut tokens) {
        machine.run(expression);
    }
    Outcome { check: machine.check, time: began.elapsed(), longest: None }
}
