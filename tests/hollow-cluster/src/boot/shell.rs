//! Commands that change files before kubeadm runs. Templates for Flatcar write the identity of the server this way.

use std::collections::BTreeMap;

use super::BootPlan;

/// Shell with exported variables. It knows `export`, `envsubst` and `mv`, and ignores all other commands.
#[derive(Debug, Default)]
pub(super) struct Shell {
    variables: BTreeMap<String, String>,
}

impl Shell {
    /// Sets a variable.
    pub(super) fn export(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Executes one line on the files of the plan.
    pub(super) fn run(&mut self, plan: &mut BootPlan, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["export", assignment] => {
                let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
                let value = self.substituted(value);
                self.export(name, &value);
            }
            ["envsubst", "<", source, ">", target] => {
                let text = super::text_file(plan, source)?;
                let text = self.substituted(text);
                plan.files.insert((*target).to_owned(), text.into_bytes());
            }
            ["mv", source, target] => {
                let missing = || format!("mv: cannot stat '{source}': No such file or directory");
                let content = plan.files.remove(*source).ok_or_else(missing)?;
                plan.files.insert((*target).to_owned(), content);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns a text with the values of `$NAME`, `${NAME}` and `${NAME%.*}`. An unset variable is empty.
    fn substituted(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut result = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (expression, rest) = match part.strip_prefix('{') {
                Some(inner) => inner.split_once('}').unwrap_or((inner, "")),
                None => part.split_at(part.find(|it| !is_of_name(it)).unwrap_or(part.len())),
            };
            if expression.is_empty() {
                result.push('$');
            }
            result.push_str(&self.value(expression));
            result.push_str(rest);
        }
        result
    }

    fn value(&self, expression: &str) -> String {
        let value = |name: &str| self.variables.get(name).cloned().unwrap_or_default();
        let Some(name) = expression.strip_suffix("%.*") else { return value(expression) };
        let whole = value(name);
        whole.rsplit_once('.').map(|(start, _)| start.to_owned()).unwrap_or(whole)
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_variables_are_written_into_a_file() {
        let mut plan = BootPlan::default();
        plan.files.insert("/a".to_owned(), b"name: ${HOST} $ID. $ ${NONE}|".to_vec());
        let mut shell = Shell::default();
        shell.export("HOST", "node-0.novalocal");
        let lines =
            ["export HOST=${HOST%.*}", "export ID=1-2", "envsubst < /a > /b", "mv /b /a", "kubeadm version"];
        for line in lines {
            shell.run(&mut plan, line).unwrap();
        }
        assert_eq!(plan.files["/a"], b"name: node-0 1-2. $ |");
        assert!(!plan.files.contains_key("/b"));
        assert!(shell.run(&mut plan, "mv /b /a").is_err());
    }
}
