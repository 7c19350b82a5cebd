//! Tests of the lexer and the parser.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::format_push_string,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests"
)]

use super::{Kind, Step, parse};

const CODE: &str = "op_version_set = 1
class M(Module):
  __parameters__ = [\"p\", ]
  p : Tensor
  class : T
  __annotations__[\"0\"] = __torch__.Sub
  k : Final[int] = 3
  def forward(self: __torch__.M,
    x: Tensor,
    flag: bool=True) -> Tuple[Tensor, List[int]]:
    a, b, = (self).pair(x, )
    _17, x2, = True, getattr(self, \"0\")
    for i in range(torch.len(a)):
      d = a[i]
    while _17:
      _17 = torch.lt(-9223372036854775808, 1.0000000000000001e-05)
    if torch.__is__(x, None):
      pass
    else:
      self.count = torch.add(b, 0.+3.j)
    def inner():
      return (x, -inf)
    return (fork(inner), [1, 2][0:1], {\"a\\n\\303\\244\": ()})
def free(a: int) -> int:
  return a
";

#[test]
fn statements_of_every_kind_are_read() {
    let source = parse(CODE).expect("code");
    let class = source.classes.first().expect("a class");
    assert_eq!((class.name.as_str(), class.base.as_str()), ("M", "Module"));
    let names: Vec<&str> = class.attributes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["p", "class", "0"]);
    assert_eq!(class.constants.len(), 1);
    assert_eq!(class.lists, [("__parameters__".to_owned(), vec!["p".to_owned()])]);
    let forward = class.methods.first().expect("a method");
    assert_eq!(forward.parameters.len(), 3);
    let kinds: Vec<&str> = forward
        .body
        .iter()
        .map(|statement| match &statement.step {
            Step::Assign { unpacks: true, .. } => "unpack",
            Step::Assign { .. } => "assign",
            Step::SetAttribute { .. } => "set",
            Step::Evaluate(_) => "evaluate",
            Step::Return(_) => "return",
            Step::Pass => "pass",
            Step::If { .. } => "if",
            Step::While { .. } => "while",
            Step::For { .. } => "for",
            Step::With { .. } => "with",
            Step::Define(_) => "def",
        })
        .collect();
    assert_eq!(kinds, ["unpack", "assign", "for", "while", "if", "def", "return"]);
    let Some(Step::Return(Some(result))) = forward.body.last().map(|it| &it.step) else {
        panic!("no result")
    };
    let Kind::Tuple(parts) = &result.kind else { panic!("no tuple") };
    let Some(Kind::Dict(entries)) = parts.last().map(|it| &it.kind) else { panic!("no dict") };
    assert_eq!(entries[0].0.kind, Kind::String("a\nä".to_owned()));
    assert_eq!(source.functions.len(), 1);
}

#[test]
fn every_prefix_and_every_changed_byte_is_read_or_an_error_with_a_line() {
    for end in 0..CODE.len() {
        let _ = CODE.get(..end).map(parse);
    }
    for place in 0..CODE.len() {
        for byte in [b'(', b')', b' ', b'\n', b'"', b'.', b'0', b'-', b'=', b':', 0x7f] {
            let mut bytes = CODE.as_bytes().to_vec();
            bytes[place] = byte;
            let _ = std::str::from_utf8(&bytes).map(parse);
        }
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        format!("def f() -> int:\n  return {open}1{close}\n")
    };
    for code in [deep("(", ")"), deep("[", "]"), deep("f(", ")"), deep("{1: ", "}")] {
        let error = parse(&code).expect_err("an error");
        assert!(error.to_string().contains("levels"), "{error}");
    }
    let chain = format!("def f() -> int:\n  return a{}\n", ".b".repeat(100_000));
    assert!(parse(&chain).is_err());
    let mut blocks = String::from("def f() -> int:\n");
    for depth in 1..500 {
        blocks.push_str(&format!("{}while a:\n", " ".repeat(depth)));
    }
    assert!(parse(&blocks).expect_err("an error").to_string().contains("nested blocks"));
}
