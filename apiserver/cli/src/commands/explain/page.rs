//! Page of a reason as plain text for a terminal. The source is Markdown of a fixed form, which `cargo xtask check`
//! verifies.

/// Indent of commands, so that they stand out and can be copied. Unit: columns.
const COMMAND: usize = 4;

/// Returns the first sentence of a page: the meaning of the reason.
pub(super) fn meaning(page: &str) -> String {
    let paragraph = page.split("\n\n").nth(1).unwrap_or_default();
    unmarked(&joined(paragraph))
}

/// Returns a section of a page as plain text: a line for each item, paragraph and command.
pub(super) fn section(page: &str, title: &str) -> String {
    let is_title = |line: &str| line.strip_prefix("## ") == Some(title);
    let lines = page.lines().skip_while(|line| !is_title(line)).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("## "));
    let (mut found, mut in_code, mut continues) = (Vec::<String>::new(), false, false);
    for line in lines.map(str::trim) {
        if line.starts_with("```") {
            in_code = !in_code;
            continues = false;
            continue;
        }
        match found.last_mut().filter(|_| continues && !is_item(line)) {
            Some(last) if !line.is_empty() => {
                last.push(' ');
                last.push_str(line);
            }
            None if !line.is_empty() => found.push(line.to_owned()),
            _ => {}
        }
        continues = !line.is_empty() && !in_code;
    }
    unmarked(&found.join("\n"))
}

/// Returns a page as plain text of a width.
pub(super) fn plain(page: &str, width: usize) -> String {
    let mut text = String::new();
    let mut paragraph = String::new();
    let mut in_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            flush(&mut text, &mut paragraph, width);
            in_code = !in_code;
        } else if in_code {
            text.push_str(&" ".repeat(COMMAND));
            text.push_str(line);
            text.push('\n');
        } else if line.trim().is_empty() {
            flush(&mut text, &mut paragraph, width);
            text.push('\n');
        } else if let Some(heading) = line.strip_prefix("## ").or_else(|| line.strip_prefix("# ")) {
            flush(&mut text, &mut paragraph, width);
            let is_section = line.starts_with("## ");
            let heading = unmarked(heading);
            text.push_str(&if is_section { heading.to_uppercase() } else { heading });
            text.push('\n');
        } else {
            if is_item(line) {
                flush(&mut text, &mut paragraph, width);
            }
            paragraph.push_str(line.trim());
            paragraph.push(' ');
        }
    }
    flush(&mut text, &mut paragraph, width);
    text
}

/// Returns true for a line that begins an item of a list.
fn is_item(line: &str) -> bool {
    marker(line) > 0
}

/// Returns the width of the sign or number before an item; 0 for other lines.
fn marker(line: &str) -> usize {
    let Some((first, _)) = line.split_once(' ') else { return 0 };
    let number = first.strip_suffix('.').is_some_and(|number| number.chars().all(|it| it.is_ascii_digit()));
    if first == "-" || number { first.len() + 1 } else { 0 }
}

fn flush(text: &mut String, paragraph: &mut String, width: usize) {
    if !paragraph.is_empty() {
        let content = joined(paragraph);
        text.push_str(&wrapped(&unmarked(&content), marker(&content), width));
        paragraph.clear();
    }
}

fn joined(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a text without the marks of Markdown. Names are recognizable by their case.
fn unmarked(text: &str) -> String {
    text.replace("**", "").replace('`', "")
}

/// Returns lines of a width, of which all but the first have an indent. Spaces at the beginning of the text stay.
pub(super) fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_inclusive(' ') {
        let is_full = line.chars().count() + word.trim_end().chars().count() > width;
        if is_full && !line.trim().is_empty() {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = " ".repeat(indent);
        }
        line.push_str(word);
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_plain_text() {
        let page = "# Gone\n\nThe `server`\nis gone.\n\n- **Shown by**: Machine `Ready`\n  and others\n\n## Look\n\n\
                    ```sh\nkubectl get machines -n NS --some-long-option\n```\n\n## Do\n\n- One.\n- Two words\n  more.\n";
        let expected = "Gone\n\nThe server is gone.\n\n- Shown by: Machine\n  Ready and others\n\nLOOK\n\n    \
                        kubectl get machines -n NS --some-long-option\n\nDO\n\n- One.\n- Two words more.\n";
        assert_eq!(plain(page, 20), expected);
        assert_eq!(meaning(page), "The server is gone.");
    }

    #[test]
    fn a_section_has_a_line_for_each_item_and_command() {
        let page = "# A\n\n## Do\n\nFirst\nthis.\n\n- `One`\n  more.\n- Two.\n\n```sh\nkubectl a\nkubectl b\n```\n\n## B\n\nC.\n";
        assert_eq!(section(page, "Do"), "First this.\n- One more.\n- Two.\nkubectl a\nkubectl b");
        assert_eq!((section(page, "B"), section(page, "Z")), ("C.".to_owned(), String::new()));
    }

    #[test]
    fn a_long_word_is_not_broken() {
        assert_eq!(wrapped("a bbbbbbbbbb c", 2, 6), "a\n  bbbbbbbbbb\n  c\n");
        assert_eq!(wrapped("Name    text that is long", 4, 14), "Name    text\n    that is\n    long\n");
    }
}
