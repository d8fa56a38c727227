// Command ignition reads Ignition configurations as a machine does at its first boot. It fails if Ignition refuses one or
// warns of it.
package main

import (
	"fmt"
	"os"

	config "github.com/coreos/ignition/config/v2_3"
)

func main() {
	failed := false
	for _, path := range os.Args[1:] {
		if err := read(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			failed = true
		}
	}
	if failed || len(os.Args) < 2 {
		os.Exit(1)
	}
}

func read(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, report, err := config.Parse(raw)
	if len(report.Entries) > 0 {
		return fmt.Errorf("%s", report.String())
	}
	return err
}
