//! Corefile of CoreDNS: the changes that newer versions need. Lines that need none stay as they are, with their comments.

use semver::Version;

/// First version whose Corefile can be migrated here. Older ones have options that need a person.
pub(crate) const FIRST: Version = Version::new(1, 6, 0);

/// Option of a plugin that a version needs: the version, the plugin, the option, and its value.
const OPTIONS: [(Version, &str, &str, &str); 2] = [
    // Queries that are on their way are answered before the end.
    (Version::new(1, 6, 5), "health", "lameduck", "5s"),
    // A name server that does not answer must not take all memory.
    (Version::new(1, 7, 0), "forward", "max_concurrent", "1000"),
];

/// Version in which transfers became a plugin of their own.
const TRANSFER: Version = Version::new(1, 8, 0);

/// Directive of a server block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Directive {
    name: String,
    /// First line.
    begin: usize,
    /// Last line: that of the closing brace, or the first one.
    end: usize,
}

/// Returns a Corefile that a newer version reads; `None` if it reads the present one.
///
/// # Errors
/// The text is no Corefile. For people.
pub(crate) fn migrated(text: &str, from: &Version, to: &Version) -> Result<Option<String>, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_between = |version: &Version| from < version && version <= to;
    for (_, plugin, option, value) in OPTIONS.iter().filter(|(version, ..)| is_between(version)) {
        add_option(&mut lines, plugin, option, value)?;
    }
    if is_between(&TRANSFER) {
        move_transfers(&mut lines)?;
    }
    let mut new = lines.join("\n");
    if text.ends_with('\n') {
        new.push('\n');
    }
    Ok((new != text).then_some(new))
}

/// Returns the words of a line, without its comment.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().take_while(|word| !word.starts_with('#')).collect()
}

/// Returns the directives of all server blocks.
fn directives(lines: &[String]) -> Result<Vec<Directive>, String> {
    let mut found: Vec<Directive> = Vec::new();
    let mut depth = 0_usize;
    for (index, line) in lines.iter().enumerate() {
        let words = words(line);
        let opens = words.last().is_some_and(|word| *word == "{");
        match words.as_slice() {
            ["}"] => {
                let unopened =
                    || format!("line {} of the Corefile closes a block that no line opens", index + 1);
                depth = depth.checked_sub(1).ok_or_else(unopened)?;
                if depth == 1
                    && let Some(directive) = found.last_mut()
                {
                    directive.end = index;
                }
                continue;
            }
            [name, ..] if depth == 1 => {
                found.push(Directive { name: (*name).to_owned(), begin: index, end: index });
            }
            _ => {}
        }
        depth = depth.saturating_add(usize::from(opens));
    }
    if depth == 0 { Ok(found) } else { Err("a block of the Corefile is not closed".to_owned()) }
}

fn indentation(line: &str) -> &str {
    line.split_at(line.len().saturating_sub(line.trim_start().len())).0
}

/// Gives each directive of a plugin an option that it does not have.
fn add_option(lines: &mut Vec<String>, plugin: &str, option: &str, value: &str) -> Result<(), String> {
    // From the end, so that the numbers of the lines before stay right.
    for directive in directives(lines)?.into_iter().rev().filter(|it| it.name == plugin) {
        let range = directive.begin..=directive.end;
        let has_option =
            lines.get(range).into_iter().flatten().any(|line| words(line).first() == Some(&option));
        let Some(first) = lines.get(directive.begin).filter(|_| !has_option).cloned() else { continue };
        let indent = indentation(&first).to_owned();
        let added = format!("{indent}    {option} {value}");
        if directive.end > directive.begin {
            lines.insert(directive.begin.saturating_add(1), added);
            continue;
        }
        let text = words(&first).join(" ");
        let block = [format!("{indent}{text} {{"), added, format!("{indent}}}")];
        lines.splice(directive.begin..=directive.begin, block);
    }
    Ok(())
}

/// Makes a plugin of its own from each `transfer` inside `kubernetes`.
fn move_transfers(lines: &mut Vec<String>) -> Result<(), String> {
    for directive in directives(lines)?.into_iter().rev().filter(|it| it.name == "kubernetes") {
        let inside = directive.begin.saturating_add(1)..directive.end;
        let is_transfer = |line: &String| words(line).first() == Some(&"transfer");
        let targets: Vec<String> = lines
            .get(inside)
            .into_iter()
            .flatten()
            .filter(|line| is_transfer(line))
            .map(|line| words(line).into_iter().skip(1).collect::<Vec<_>>().join(" "))
            .collect();
        if targets.is_empty() {
            continue;
        }
        let indent = lines.get(directive.begin).map(|line| indentation(line).to_owned()).unwrap_or_default();
        let block: Vec<String> = std::iter::once(format!("{indent}transfer {{"))
            .chain(targets.into_iter().map(|target| format!("{indent}    {target}")))
            .chain([format!("{indent}}}")])
            .collect();
        let after = directive.end.saturating_add(1);
        lines.splice(after..after, block);
        let mut index = 0;
        lines.retain(|line| {
            let at = index;
            index += 1;
            !(at > directive.begin && at < directive.end && is_transfer(line))
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = ".:53 {
    errors # a comment
    health
    kubernetes cluster.local in-addr.arpa {
        pods insecure
        transfer to * 192.0.2.1
        fallthrough
    }
    forward . /etc/resolv.conf
    cache 30
}
example.org:53 {
    forward . 192.0.2.2 {
        max_concurrent 7
    }
    health :8081 {
        lameduck 9s
    }
}
";

    fn found(text: &str, from: &str, to: &str) -> Result<Option<String>, String> {
        migrated(text, &from.parse().unwrap(), &to.parse().unwrap())
    }

    #[test]
    fn d9_each_rule_applies_on_the_way_and_all_other_lines_stay() {
        let health = "    health {\n        lameduck 5s\n    }\n";
        let forward = "    forward . /etc/resolv.conf {\n        max_concurrent 1000\n    }\n";
        let new = OLD.replacen("    health\n", health, 1);
        assert_eq!(found(OLD, "1.6.2", "1.6.5").unwrap(), Some(new.clone()));
        let new = new.replacen("    forward . /etc/resolv.conf\n", forward, 1);
        assert_eq!(found(OLD, "1.6.2", "1.7.0").unwrap(), Some(new.clone()));
        let moved = "        fallthrough\n    }\n    transfer {\n        to * 192.0.2.1\n    }\n";
        let new = new.replace("        transfer to * 192.0.2.1\n", "").replacen(
            "        fallthrough\n    }\n",
            moved,
            1,
        );
        assert_eq!(found(OLD, "1.6.2", "1.8.0").unwrap(), Some(new.clone()));
        assert_eq!(found(&new, "1.6.2", "1.8.0").unwrap(), None, "the second time nothing changes");
        assert_eq!(found(OLD, "1.8.0", "1.99.0").unwrap(), None, "no rule is between them");
    }

    #[test]
    fn d9_a_text_that_is_no_corefile_is_an_error() {
        assert!(found(".:53 {\n    health\n", "1.6.2", "1.8.0").unwrap_err().contains("not closed"));
        assert!(found("}\n", "1.6.2", "1.8.0").unwrap_err().contains("line 1"));
    }
}
