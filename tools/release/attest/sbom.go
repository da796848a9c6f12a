// Package attest owns what is said about what is shipped, and by whom: bills of materials, provenance, signatures.
package attest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// PredicateSBOM is the predicate of a statement that holds a bill of materials of CycloneDX.
const PredicateSBOM = "https://cyclonedx.org/bom"

// SBOM is the bill of materials of a program, as CycloneDX 1.6 in JSON. It is made from what the Go toolchain wrote into the program:
// what `go version -m` lists, with the toolchain's own library.
func SBOM(program, version string, created time.Time) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	sum := sha256.Sum256(text)
	root := cyclonedx.Component{
		BOMRef: "program", Type: cyclonedx.ComponentTypeApplication, Name: path.Base(info.Path), Version: version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + version + "#" + strings.TrimPrefix(info.Path, info.Main.Path+"/"),
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}
	var settings []cyclonedx.Property
	for _, s := range info.Settings {
		settings = append(settings, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	root.Properties = &settings
	components := []cyclonedx.Component{module("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, dep := range info.Deps {
		components = append(components, dependency(dep))
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	needs := make([]string, len(components))
	for n := range components {
		needs[n] = components[n].BOMRef
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid.NewHash(sha256.New(), uuid.NameSpaceURL, sum[:], 5).URN()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: created.UTC().Format(time.RFC3339), Component: &root}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: root.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

func module(name, version, sum string) cyclonedx.Component {
	c := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: "pkg:golang/" + name + "@" + version,
	}
	c.BOMRef = c.PackageURL
	if sum != "" { // of the module's files, in the form of go.sum, which no algorithm of CycloneDX is
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}

// dependency is a module, or what replaces it.
func dependency(m *debug.Module) cyclonedx.Component {
	if m.Replace == nil {
		return module(m.Path, m.Version, m.Sum)
	}
	c := module(m.Replace.Path, m.Replace.Version, m.Replace.Sum)
	properties := []cyclonedx.Property{{Name: "go:replaces", Value: m.Path + "@" + m.Version}}
	if c.Properties != nil {
		properties = append(properties, *c.Properties...)
	}
	c.Properties = &properties
	return c
}
