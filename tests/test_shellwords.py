"""Shell text read into commands and words; real bash is the measure."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bantam.agent.commands.reader import commands_of
from bantam.agent.commands.words import HERE, HOME, UNKNOWN, Command, Doubt, Unreadable

BASH = shutil.which("bash") or "bash"


def words(text: str) -> list[list[str]]:
    """Return the words of each command, `?` for what is not known and `~` for the home."""
    return [
        [word.text.replace(UNKNOWN, "?").replace(HOME, "~") for word in command.words]
        for command in commands_of(text)
    ]


def only(text: str) -> Command:
    (command,) = commands_of(text)
    return command


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  # nothing", []),
        ("\n\n", []),
        ("ls -a  b", [["ls", "-a", "b"]]),
        ("a;b\nc&d|e|&f&&g||h", [[name] for name in "abcdefgh"]),
        ("echo 'a b' \"c d\" e\\ f", [["echo", "a b", "c d", "e f"]]),
        ("echo 'a'\"b\"c", [["echo", "abc"]]),
        ("echo '' \"\"", [["echo", "", ""]]),
        (r'echo "\$a \" \x \\ \`"', [["echo", r"$a "[:3] + r'" \x \ `']]),
        ('echo "a\\\nb"', [["echo", "ab"]]),
        ("ec\\\nho a\\\n b", [["echo", "a", "b"]]),
        ("echo a#b #c", [["echo", "a#b"]]),
        ("echo $ a$", [["echo", "$", "a$"]]),
        ('echo $"a"', [["echo", "a"]]),
        (r"echo $'a\tb\'\\'", [["echo", "a\tb'\\"]]),
        ('echo $a ${b} "$c" ${d%%.*} ${#e} $1 $? $@', [["echo", *"????????"]]),
        ("echo ${a:-\"x}\"} ${b/\\}/c} ${c:-'}'} ${d:-$e<f}", [["echo", *"????"]]),
        ("echo $HOME/a ~ ~/b ~bob '~' a~", [["echo", "~/a", "~", "~/b", "?bob", "~", "a~"]]),
        ("echo $((1 + (2*3))) $((a))b", [["echo", "?", "?b"]]),
        ("((i++)) && ls", [[], ["ls"]]),
        ("echo $(a) `b` \"$(c 'd')\"", [["a"], ["b"], ["c", "d"], ["echo", *"???"]]),
        (r"echo `a \`b\` \$c`", [["b"], ["a", "?", "?"], ["echo", "?"]]),
        (r'echo "`a \"b\"`"', [["a", "b"], ["echo", "?"]]),
        ("a <(b) >(c)", [["b"], ["c"], ["a", "/dev/fd/63", "/dev/fd/63"]]),
        ("echo {a,b}{1,2} {} {a} {x,{y,z}} '{a,b}' {,c} {,d}e", [
            ["echo", *("a1", "a2", "b1", "b2", "{}", "{a}", "x", "y", "z", "{a,b}", "c", "e", "de")]
        ]),
        ("echo {a,b {c", [["echo", "{a,b", "{c"]]),
        ("if a; then b; elif c; then d; else e; fi", [[name] for name in "abcde"]),
        ("while a\ndo b\ndone", [["a"], ["b"]]),
        ("until a; do b; done", [["a"], ["b"]]),
        ("for x in a $(b) c; do d; done", [["b"], [], ["d"]]),
        ("for x; do a; done", [[], ["a"]]),
        ("for ((i = 0; i < 3; i++)); do a; done", [[], ["a"]]),
        ("a {1..3} x{2..-1} {5..5}y", [["a", *"123", "x2", "x1", "x0", "x-1", "5y"]]),
        ("case $(a) in b|c) d ;; (e) f ;& g) h;;& *) esac", [["a"], ["d"], ["f"], ["h"]]),
        ("case a in\n# b\nc)\nd\n;;\nesac", [["d"]]),
        ("{ a; b; }", [["a"], ["b"]]),
        ("(a; (b))", [["a"], ["b"]]),
        ("! a | b", [["a"], ["b"]]),
        ("time -p a; time b; time -- c", [["a"], ["b"], ["c"]]),
        ("[[ a == b* && ( -n $c || d < e ) ]] || f", [
            ["[[", "a", "==", "b*", "-n", "?", "d", "e"],
            ["f"],
        ]),
        ("[[ a =~ ^(b|c)$\n]]", [["[[", "a", "=~", "^", "b", "c", "$"]]),
        ("a=1 b+=2 c[3]=4 d=(e $(f)\ng) h", [["f"], ["h"]]),
        ("echo if then", [["echo", "if", "then"]]),
        ("a <<E b\n$(c) `d`\n'\nE\ne", [["a", "b"], ["c"], ["d"], ["e"]]),
        ("a <<'E'\n$(c)\nE\ne", [["a"], ["e"]]),
        ("a <<-E\n\tb\\\nE\n\t\\$(c)\n\tE\ne", [["a"], ["e"]]),
        ("a <<A <<'' 3<<\"B\"\nA\n\nx\nB\nb", [["a"], ["b"]]),
        ("a $(b <<E\n$(c)\nE\n)", [["b"], ["c"], ["a", "?"]]),
        ("a <<E && b\nE\nc", [["a"], ["b"], ["c"]]),
        ("a <<E 'b\nc'\nd\nE\ne", [["a", "b\nc"], ["e"]]),
    ],
)  # fmt: skip
def test_a_text_is_the_commands_in_it(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("'a", '"a', "`a", "$(a", "${a", "(a", "a)", "a \\", "$((1", "((1", "$'a", "[[ a", "<(a"),
        *("a <<E", "a <<E\nb", "a <<$b\n$b", "a <<E\\\nF\nEF", "$(a <<E)\nE", "a <<E $(b\n)\nE"),
        *("a <<E; (b\n)\nE", "a <<E; b=(\nE\n)", "$(a <<E; b=(\nE\n))", "a <<E; [[ b\n]]\nE"),
        *("f() { a; }", "function f { a; }", "coproc a", "select x in a; do b; done"),
        *("a; ; b", "a & & b", "&& a", "| a", "a |", "a &&", ";", "a ( b )", "(a) b", "((a)) b"),
        *("case a b", "case a in b", "case a in b; esac", "for 1 in a; do b; done", "for"),
        *("a >", "a > ; b", "a > {b,c}", "a > #b", "for x in #b\ndo c; done"),
        *("case #\na in b) c;; esac",),
        *("a=(b #c)\n)", "a=(b;c)", "a=(b", "[[ a; b ]]", "[[ #\na ]]"),
        *("$[1+1]", "a $\\\n(b)", '"$\\\n(b)"', "${a:=b}", "${a=b}", "${ a; }", "${|a; }"),
        *("${a@P}",),
        *("\"${a:-'b'}\"", "${a:-<(b)}", "$((1 + $(a)))", "$((`a`))", "((a); b)"),
        *("$'\\0'", "$'\\x41'", "$'\\u00e9'", "$'\\ca'"),
        *("{1..300}", "{01..3}", "{1..3..2}", "{a..z}", "{a,b}" * 10, "{a," * 50),
        *("$(" * 30 + ")" * 30, "( " * 30 + "a" + ")" * 30, "${a:-" * 30 + "}" * 30),
    ],
)  # fmt: skip
def test_what_is_not_surely_understood_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        commands_of(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > b", [(">", "b")]),
        ("a >b 2>>c <d &>e >|f <>g >&h 3<&i &>>j", [
            (">", "b"), (">>", "c"), ("<", "d"), ("&>", "e"), (">|", "f"), ("<>", "g"),
            (">&", "h"), ("<&", "i"), ("&>>", "j"),
        ]),
        ("> b a", [(">", "b")]),
        ("a 2>&1 <<< 'b c'", [(">&", "1"), ("<<<", "b c")]),
        ("a {fd}>b", [(">", "b")]),
        ("a < <(b)", [("<", "/dev/fd/63")]),
    ],
)  # fmt: skip
def test_redirections_are_told_from_words(text: str, expected: list[tuple[str, str]]) -> None:
    command = commands_of(text)[-1]
    assert [word.text for word in command.words] == ["a"]
    assert [(sign, target.text) for sign, target in command.redirections] == expected


def test_a_redirection_of_a_loop_or_group_is_a_command_without_words() -> None:
    for text in ("{ a; } > b", "(a) > b", "while a; do b; done > b", "[[ a ]] > b", "((1)) > b"):
        last = commands_of(text)[-1]
        assert not last.words
        assert [target.text for _, target in last.redirections] == ["b"]


def test_assignments_are_told_from_words() -> None:
    command = only('a=1 b="$x" c+=d e=~/f g[1]=h i[$j]=k l=(m) n o=p')
    assert [(name, value.text) for name, value in command.assignments] == [
        *(("a", "1"), ("b", UNKNOWN), ("c", "d"), ("e", f"{HOME}/f"), ("g", "h"), ("i", UNKNOWN)),
        ("l", UNKNOWN),
    ]
    assert [word.text for word in command.words] == ["n", "o=p"]


def test_a_command_is_sure_where_it_runs_in_the_shell_itself_whatever_came_before() -> None:
    text = "a; b && c; d | e; f & (g); h $(i); if j; then k; fi; { l; }; for x in m; do n; done; o"
    sure = [
        command.words[0].text
        for command in commands_of(text)
        if command.doubt is Doubt.NONE and command.words
    ]
    assert sure == ["a", "b", "h", "o"]
    inner = [
        command.words[0].text
        for command in commands_of(text)
        if command.doubt is Doubt.HOW_OFTEN and command.words
    ]
    assert inner == ["j", "k", "l", "n"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo $((a + 1)) $((b))", [["a + 1", "b"]]),
        ("((a)) && b", [["a"], []]),
        ("for ((a; b; c)); do d; done", [["a; b; c"], []]),
        (
            "echo ${?} ${a[i]} ${b:j} ${c:1:k} ${#d[l]} ${e:-f} ${g/h:i} ${@:m}",
            [["i", "j", "1:k", "l", "m"]],
        ),
        ("a[b]=1 c[$d]+=2 e=3 f", [["b", "$d"]]),
        ("a <<E\n$((b))\nE", [[], ["b"]]),
    ],
)
def test_a_command_knows_what_is_calculated_in_it(text: str, expected: list[list[str]]) -> None:
    assert [list(command.sums) for command in commands_of(text)] == expected


@pytest.mark.parametrize(
    "text", ["((a))", "a &> b", "a {b}> c", "a $'b'", 'a $"b"', "time a", "`((a))`", "$( ((a)) )"]
)
def test_what_each_sh_reads_in_another_way_is_refused_where_it_may_not_be_bash(text: str) -> None:
    assert commands_of(text)
    with pytest.raises(Unreadable, match="each sh reads it in another way"):
        commands_of(text, is_bash=False)


def test_the_folder_that_the_shell_is_in_is_known() -> None:
    command = only('a $PWD/b "${PWD}" "${PWD%/*}"')
    assert [word.text for word in command.words] == ["a", f"{HERE}/b", HERE, UNKNOWN]


def test_a_command_knows_its_source() -> None:
    sources = [command.source for command in commands_of("a 'b'  >c ; d $(e f) # g\nh")]
    assert sources == ["a 'b'  >c", "e f", "d $(e f) # g", "h"]


def test_a_word_tells_what_may_become_of_it() -> None:
    command = only('a $b "$c" *.d \'*\' [e] [ -$f "$@" g"$h"')
    texts = [word.text.replace(UNKNOWN, "?") for word in command.words]
    assert texts == ["a", "?", "?", "*.d", "*", "[e]", "[", "-?", "?", "g?"]
    assert [word.splits for word in command.words] == [
        *(False, True, False, False, False, False, False, True, True, False)
    ]
    assert [word.is_known for word in command.words] == [
        *(True, False, False, False, True, False, True, False, False, False)
    ]
    assert [word.may_hide for word in command.words] == [
        *(False, True, True, False, False, False, False, True, True, False)
    ]


# -- against the shell itself -----------------------------------------------------------------

PIECES = [
    *"ab{},~-.=%+^/ ",
    "\\ ",
    "\\\n",
    "'b c'",
    '"d e"',
    "''",
    '""',
    "$'\\t\\n'",
    "{a,b}",
    "{,1}",
]
PIECES += ['"\\$"', "'\\'", "\\'", '\\"', "\\{", "'{'", "\\,", "$'\\''", '"\\a"', "\\#", "a#"]


def in_bash(script: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    environ = {"PATH": os.environ["PATH"], "HOME": "/home/of-nobody"}
    return subprocess.run(
        [BASH, "-c", script], cwd=cwd, env=environ, capture_output=True, timeout=60, check=False
    )


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_words_are_those_of_bash(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    script = f"printf '%s\\0' x {text}"
    try:
        command = only(script)
    except Unreadable:
        return
    if not all(word.is_known for word in command.words):
        return
    ours = [word.text.replace(HOME, "/home/of-nobody") for word in command.words[2:]]
    theirs = in_bash(script, tmp_path_factory.getbasetemp()).stdout.decode().split("\0")[:-1]
    assert ours == theirs


PARTS = [
    "{}",
    "{}\n",
    "{};",
    "if {}\nthen {}\nfi",
    "({})",
    "{{ {}\n}}",
    "echo $({})",
    "{} |cat",
    "{} && {}",
]
PARTS += [
    "cat <<E\n$({})\nE\n",
    "cat <<'E'\n$({})\nE\n{}",
    "case a in (a) {} ;; esac",
    "x=`{}`",
    "# {}\n{}",
]
PARTS += [
    "for x in 1; do {}\ndone",
    "echo '$({})' \"$({})\"",
    "[[ a ]] && {}",
    "echo a#; {}",
    "! {}",
]


def filled(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return texts with others in them."""
    return st.builds(
        lambda part, *texts: part.format(*texts[: part.count("{}")]),
        st.sampled_from(PARTS),
        inner,
        inner,
    )


@settings(max_examples=150, deadline=None)
@given(st.recursive(st.just("mark"), filled, max_leaves=6))
@example("x=`x=`mark && mark``")
def test_what_bash_runs_was_seen(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        # mark`` is mark as well: a program that is not known may be it.
        seen = sum(name.strip("?") == "mark" for each in words(text) for name in each[:1])
    except Unreadable:
        return
    # The function counts what bash runs, in subshells too; the file is never read by ours.
    count = tmp_path_factory.mktemp("count") / "runs"
    count.touch()
    in_bash(f"mark() {{ echo x >> '{count}'; }}\n{text}", count.parent)
    assert count.read_text().count("x") <= seen
