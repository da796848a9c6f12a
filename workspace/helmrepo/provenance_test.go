package helmrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/test/support/needs"
)

// signedBy is the Check that trusts some keys.
func signedBy(keys *verify.Keys) Check {
	return func(_ context.Context, c Chart) error {
		digest, _, err := keys.Chart(c.Provenance, c.Name, c.Version)
		if err == nil && digest != c.Digest {
			err = fmt.Errorf("%w: an archive with digest %s", verify.ErrOther, digest)
		}
		return err
	}
}

func pgpSigner(t testing.TB) (*openpgp.Entity, *verify.Keys) {
	t.Helper()
	entity, err := openpgp.NewEntity("release", "", "release@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var public bytes.Buffer
	w, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(entity.Serialize(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	keys, err := verify.ParseKeys(public.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return entity, keys
}

// provenance is what `helm package --sign` writes beside an archive.
func provenance(t testing.TB, entity *openpgp.Entity, version, digest string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := clearsign.Encode(&out, entity.PrivateKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(w, "apiVersion: v2\nname: podinfo\nversion: %s\n\n...\nfiles:\n  podinfo-%s.tgz: sha256:%s\n", version, version, digest)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAChartIsTakenWithTheProvenanceOfItsOwnArchiveOnly(t *testing.T) {
	t.Parallel()
	s := serve(t)
	entity, keys := pgpSigner(t)
	stranger, _ := pgpSigner(t)
	old := s.publish(t, "6.6.0", "old")
	data := s.publish(t, "6.7.0", "new")
	m, u := emptyMirror(t), upstreamOf(t, Options{URL: s.URL + "/charts", Check: signedBy(keys)})
	for _, tc := range []struct {
		name string
		text []byte
		want error
	}{
		{"none", nil, verify.ErrUnsigned},
		{"a stranger's", provenance(t, stranger, "6.7.0", sum(data)), verify.ErrUnknownKey},
		{"another version's", provenance(t, entity, "6.6.0", sum(old)), verify.ErrOther},
		{"another archive's", provenance(t, entity, "6.7.0", sum(old)), verify.ErrOther},
		{"changed", bytes.Replace(provenance(t, entity, "6.7.0", sum(old)), []byte(sum(old)), []byte(sum(data)), 1), verify.ErrBad},
		{"its own", provenance(t, entity, "6.7.0", sum(data)), nil},
	} {
		s.change(func() {
			if delete(s.files, "/charts/podinfo-6.7.0.tgz.prov"); tc.text != nil {
				s.files["/charts/podinfo-6.7.0.tgz.prov"] = tc.text
			}
		})
		if err := fetchAll(t, m, u, "podinfo"); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if got := values(t, m, "podinfo"); got != "new" {
		t.Errorf("values = %q", got)
	}
}

func TestARealChartArrivesAsItsAuthorWroteIt(t *testing.T) {
	t.Parallel()
	root := needs.Corpus(t)
	charts, err := filepath.Glob(filepath.Join(root, "argo-cd-e2e/cases/*/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, file := range append(charts, filepath.Join(root, "podinfo/charts/podinfo/Chart.yaml")) {
		dir := filepath.Dir(file)
		chart, err := loader.Load(dir)
		if err != nil {
			t.Logf("%s: helm does not package it: %v", dir, err)
			continue
		}
		archive, err := chartutil.Save(chart, t.TempDir())
		if err != nil {
			t.Logf("%s: helm does not package it: %v", dir, err)
			continue
		}
		data, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t)
		s.change(func() { s.files["/chart.tgz"] = data })
		s.list(chart.Metadata.Version, "chart.tgz", sum(data))
		m := emptyMirror(t)
		mustFetch(t, m, upstreamOf(t, Options{URL: s.URL}), "podinfo@"+chart.Metadata.Version)
		snap, err := m.Snapshot("podinfo@" + chart.Metadata.Version)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range chart.Templates {
			if got, err := fs.ReadFile(snap.FS(), f.Name); err != nil || !bytes.Equal(got, f.Data) {
				t.Errorf("%s: %s differs: %v", dir, f.Name, err)
			}
		}
		taken++
	}
	if taken < 10 {
		t.Errorf("only %d charts were tried", taken)
	}
}
