package committer

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// Whatever somebody sends, it is refused in words or leaves a fleet in which the service has what was sent.
func FuzzASettingIsRefusedOrWritten(f *testing.F) {
	for _, text := range []string{
		`{"parameters": {"a": "b", "c": null}}`, `{"values": {"image.tag": "1.10", "a[0].b": 1, "x\\.y": null}}`,
		`{"valueTexts": {"a": "[1, {b: c}]"}}`,
		`{"ref": ""}`, `{"clusters": {"names": ["a"], "matchLabels": {"env": "test"}}}`,
		`{"values": {"a": {"": [null, 1e9]}}}`,
		`{"parameters": {"\n": "---\n"}}`,
		`{"values": {"a": [[], {}]}, "parameters": {"kind": "Cluster"}}`, `{"values": {"0": 0, "[0]": 1, "a]": 2}}`,
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	for name, text := range fleetrepo.TwoServices(nil) {
		full := dir + "/" + name
		if err := os.MkdirAll(full[:strings.LastIndexByte(full, '/')], 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	repo := os.DirFS(dir)
	f.Fuzz(func(t *testing.T, text string) {
		decoder := json.NewDecoder(io.LimitReader(strings.NewReader(text), 64<<10))
		decoder.UseNumber()
		var r v1.SetRequest
		if decoder.Decode(&r) != nil {
			return
		}
		fields, err := fieldsOf(&r)
		if refused := new(api.Refused); err != nil {
			if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest || refused.Fix == "" {
				t.Errorf("%v", err)
			}
			return
		}
		if subject := yamledit.Subject("web", fields); strings.ContainsAny(subject, "\n\r\x1b") {
			t.Errorf("%q", subject)
		}
		change, err := yamledit.Set(repo, yamledit.Document{Kind: yamledit.Service, Name: "web"}, fields...)
		if err != nil {
			c := &Committer{Options: Options{Log: slog.New(slog.DiscardHandler)}}
			if explained(err) == nil {
				t.Logf("for the log alone: %v", c.told(err, principal.Person{Name: "ada"}, &api.Edit{}))
			}
			return
		}
		if change.File != "services/web.yaml" {
			t.Errorf("it changed %s", change.File)
		}
		if _, err := fleet.Load(repo); err != nil {
			t.Error(err)
		}
	})
}
