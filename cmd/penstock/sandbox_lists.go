package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/sandbox/servers"
)

// namedLists returns the lists that --faults names. Each word is "all", the name of a list, or the name of a JSON file
// with one servers.Spec.
func namedLists(words []string) ([]servers.Named, error) {
	all := servers.Lists()
	var chosen []servers.Named
	for _, word := range words {
		i := slices.IndexFunc(all, func(n servers.Named) bool { return n.Name == word })
		switch {
		case word == "all":
			chosen = append(chosen, all...)
		case i >= 0:
			chosen = append(chosen, all[i])
		case filepath.Ext(word) == ".json":
			n, err := listFromFile(word)
			if err != nil {
				return nil, failure.Usage("", "--faults: %w", err)
			}
			chosen = append(chosen, n)
		case word != "help":
			return nil, failure.Usage("`penstock sandbox --faults help` prints them", "--faults: no list %q", word)
		}
	}
	return chosen, nil
}

func listFromFile(file string) (servers.Named, error) {
	n := servers.Named{Name: strings.TrimSuffix(filepath.Base(file), ".json")}
	text, err := os.ReadFile(file)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(text, &n.Spec); err != nil {
		return n, fmt.Errorf("read %s: %w", file, err)
	}
	if n.Spec.Size.Default < 1 || n.Spec.Paging.Kind == "" {
		return n, fmt.Errorf("read %s: size.default or paging.kind is missing", file)
	}
	return n, nil
}

// printLists prints the named lists, as a table or as JSON.
func printLists(a *app) error {
	if a.json {
		w := render.NewEncoder(a.out)
		for _, n := range servers.Lists() {
			if err := w.Encode(n); err != nil {
				return err
			}
		}
		return nil
	}
	for _, n := range servers.Lists() {
		if _, err := fmt.Fprintf(a.out, "%-16s %s\n", n.Name, n.About); err != nil {
			return err
		}
	}
	return nil
}

// announceLists prints the streams to add to pipelines.yaml.
func announceLists(a *app, all []servers.Named) error {
	if len(all) == 0 || a.json {
		return nil
	}
	text := "\nlists, for pipelines.yaml:\n\nstreams:\n"
	for _, n := range all {
		method := ""
		if n.Spec.Method != "" {
			method = ", method: " + n.Spec.Method
		}
		text += fmt.Sprintf("  lists.%s: {path: %s%s%s}\n", strings.ToLower(n.Name), sandbox.ListsPath, n.Name, method)
	}
	_, err := fmt.Fprint(a.out, text)
	return err
}
