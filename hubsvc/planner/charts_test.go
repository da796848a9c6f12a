package planner

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// chart is a packaged chart.
func chart(t *testing.T, version string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for name, text := range map[string]string{
		"web/Chart.yaml":            "apiVersion: v2\nname: web\nversion: " + version + "\n",
		"web/values.yaml":           "value: none\n",
		"web/templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {value: {{ .Values.value | quote }}}\n",
	} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// charts is a Helm repository of one chart.
type charts struct {
	*httptest.Server
	mu       sync.Mutex
	versions map[string][]byte
}

func newCharts(t *testing.T, versions ...string) *charts {
	t.Helper()
	c := &charts{versions: map[string][]byte{}}
	for _, v := range versions {
		c.versions[v] = chart(t, v)
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.URL.Path != "/index.yaml" {
			_, _ = w.Write(c.versions[strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/web-"), ".tgz")])
			return
		}
		fmt.Fprint(w, "apiVersion: v1\nentries:\n  web:\n")
		for v, data := range c.versions {
			sum := sha256.Sum256(data)
			fmt.Fprintf(w, "  - {name: web, version: %s, digest: %s, urls: [web-%s.tgz]}\n", v, hex.EncodeToString(sum[:]), v)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func TestChartOfAHelmRepositoryIsRenderedWithValuesOfTheInstallationRepo(t *testing.T) {
	o, repository := fleetrepo.New(t), newCharts(t, "1.2.0", "1.10.0", "2.0.0")
	p := plans(t, o, t.TempDir())
	fleet := fleetrepo.TwoServices(nil)
	fleet["sources/charts.yaml"] = fleetrepo.Header + "kind: Source\nmetadata: {name: charts}\nspec:\n  helm: {url: \"" + repository.URL + "\"}\n"
	fleet["services/chart.yaml"] = fleetrepo.Service("chart", "  source: {name: charts, ref: ^1.0}\n  helm: {chart: web, valuesFiles: [config/values.yaml]}\n"+
		"  mounts: [{source: {path: apps/values}, at: config}]\n")
	fleet["apps/values/values.yaml"] = "value: one\n"
	p.serves(o.Push(fleet))
	fleetrepo.Until(t, "the chart is there", func() bool { return p.on("chart").Hold == nil })
	first := p.on("chart")
	if first.Renderer != "helm" || len(first.Mounts) != 1 || first.Mounts[0].At != "config" || first.Version != "1.10.0" {
		t.Errorf("deployment = %+v", first)
	}
	p.packs()
	if got := p.file(first.Bundle, "Chart.yaml"); !strings.Contains(got, "version: 1.10.0") {
		t.Errorf("the chart is %q", got)
	}
	if got := p.file(first.Mounts[0].Bundle, "apps/values/values.yaml"); got != fleet["apps/values/values.yaml"] {
		t.Errorf("the values are %q", got)
	}
	repository.mu.Lock()
	repository.versions["1.11.0"] = chart(t, "1.11.0")
	repository.mu.Unlock()
	fleetrepo.Until(t, "the next version is taken", func() bool { return p.on("chart").Bundle != first.Bundle })
	if version := p.on("chart").Version; version != "1.11.0" {
		t.Errorf("agents are told that it is %q", version)
	}
	p.serves(o.Push(map[string]string{"apps/values/values.yaml": "value: two\n"}))
	if next := p.on("chart"); next.Key == first.Key || next.Mounts[0].Bundle == first.Mounts[0].Bundle {
		t.Error("other values gave the same key")
	}
}

// file is one file of a packed bundle.
func (p *planning) file(key, name string) string {
	p.t.Helper()
	var archive bytes.Buffer
	if err := p.Pack(p.t.Context(), key, &archive); err != nil {
		p.t.Fatal(err)
	}
	files, err := bundle.Unpack(&archive, bundle.DefaultLimits())
	if err != nil {
		p.t.Fatal(err)
	}
	data, err := files.ReadFile(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}
