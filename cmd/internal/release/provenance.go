package main

import "strings"

// localBuilder is the builder in the provenance if a person runs `make release`. No build service vouches for
// such a build.
const localBuilder = repository + "/blob/main/Makefile#release"

// digest maps the name of a hash algorithm, as in-toto defines it, to the hash.
type digest map[string]string

type subject struct {
	Name   string `json:"name"`
	Digest digest `json:"digest"`
}

// statement is an in-toto statement, version 1, with SLSA provenance, version 1. It has no signature: the
// publisher adds one.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []dependency      `json:"resolvedDependencies"`
}

type dependency struct {
	URI    string `json:"uri"`
	Digest digest `json:"digest,omitempty"`
}

type runDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

func (b *binary) provenance(builder string, subjects []subject) statement {
	source := dependency{"git+" + repository + "@" + b.commit, digest{"gitCommit": b.commit}}
	deps := []dependency{source, {URI: "pkg:generic/go@" + strings.TrimPrefix(b.GoVersion, "go")}}
	for _, m := range b.Deps {
		d := dependency{URI: purl(m.Path, m.Version)}
		if sum := dirHash(m.Sum); sum != "" {
			d.Digest = digest{"dirHash": sum}
		}
		deps = append(deps, d)
	}
	settings := map[string]string{}
	for _, s := range b.Settings {
		settings[s.Key] = s.Value
	}
	s := statement{
		Type: "https://in-toto.io/Statement/v1", Subject: subjects, PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: predicate{BuildDefinition: buildDefinition{
			BuildType:          repository + "/blob/main/Makefile#release",
			ExternalParameters: map[string]string{"source": source.URI, "version": b.Main.Version},
			InternalParameters: settings, ResolvedDependencies: deps,
		}},
	}
	s.Predicate.RunDetails.Builder.ID = builder
	return s
}
