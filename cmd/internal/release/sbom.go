package main

import (
	"encoding/base64"
	"encoding/hex"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

const (
	repository = "https://github.com/penstock-data/penstock"
	license    = "Apache-2.0"
)

// bom returns the SBOM. Its serial number depends only on the binary, and its time is the time of the commit. So equal
// builds have equal SBOMs.
func (b *binary) bom(native []cdx.Component) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.SpecVersion, bom.JSONSchema = cdx.SpecVersion1_6, "http://cyclonedx.org/schema/bom-1.6.schema.json"
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(repository+"#"+b.sum)).URN()
	self := cdx.Component{
		BOMRef: purl(b.Main.Path, b.Main.Version), Type: cdx.ComponentTypeApplication, Name: "penstock", Version: b.Main.Version,
		PackageURL: purl(b.Main.Path, b.Main.Version) + "#cmd/penstock",
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: b.sum}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: license}}},
		ExternalReferences: &[]cdx.ExternalReference{
			{Type: cdx.ERTypeVCS, URL: repository, Comment: "commit " + b.commit},
		},
	}
	bom.Metadata = &cdx.Metadata{
		Timestamp: b.at.UTC().Format(time.RFC3339),
		Component: &self,
		Tools:     &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "penstock release", Version: b.Main.Version}}},
	}
	all := []cdx.Component{{
		BOMRef: purl("std", b.GoVersion), Type: cdx.ComponentTypeLibrary, Name: "std", Version: b.GoVersion,
		PackageURL: purl("std", strings.TrimPrefix(b.GoVersion, "go")), Description: "Go's standard library and run time",
	}}
	for _, m := range b.Deps {
		all = append(all, moduleComponent(m))
	}
	all = append(all, native...)
	refs := make([]string, len(all))
	for i, c := range all {
		refs[i] = c.BOMRef
	}
	bom.Components = &all
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	return bom
}

func moduleComponent(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	c := cdx.Component{BOMRef: purl(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version)}
	if sum := dirHash(m.Sum); sum != "" {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}} // the hash in go.sum: a hash of the list of the module's files
	}
	return c
}

func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

func dirHash(sum string) string {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	if err != nil {
		return ""
	}
	return hex.EncodeToString(raw)
}
