// Renders each template of templates.txt with data.json, by Go's text/template and Sprig. Writes the names of Sprig's
// functions that upstream's renderer has to functions.txt.
package main

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

type result struct {
	Template string  `json:"template"`
	Output   *string `json:"output,omitempty"`
	Error    string  `json:"error,omitempty"`
}

func render(text string, data any) result {
	parsed, err := template.New("tpl").Funcs(sprig.HermeticTxtFuncMap()).Parse(text)
	if err != nil {
		return result{Template: text, Error: "parse"}
	}
	var out strings.Builder
	if err := parsed.Execute(&out, data); err != nil {
		return result{Template: text, Error: "render"}
	}
	output := out.String()
	return result{Template: text, Output: &output}
}

func main() {
	raw, err := os.ReadFile("data.json")
	if err != nil {
		panic(err)
	}
	names := slices.Sorted(maps.Keys(sprig.HermeticTxtFuncMap()))
	if err := os.WriteFile("functions.txt", []byte(strings.Join(names, "\n")+"\n"), 0o644); err != nil {
		panic(err)
	}
	templates, err := os.Open("templates.txt")
	if err != nil {
		panic(err)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	lines := bufio.NewScanner(templates)
	for lines.Scan() {
		if lines.Text() == "" || strings.HasPrefix(lines.Text(), "# ") {
			continue
		}
		// Functions can change the data, so each template has its own.
		var data any
		if err := json.Unmarshal(raw, &data); err != nil {
			panic(err)
		}
		if err := encoder.Encode(render(strings.ReplaceAll(lines.Text(), "⏎", "\n"), data)); err != nil {
			panic(err)
		}
	}
}
