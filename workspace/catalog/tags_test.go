package catalog

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestAnArtifactUnderAnotherTagIsNotTakenForThatVersionOnceItIsKnown(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.publish(t, content("web", "1.0.0", ""))
	r, ctx := h.repository(t), context.WithoutCancel(t.Context())
	d, err := r.Resolve(ctx, "web_1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Manifest(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	text := mustJSON(t, m)
	for _, tag := range []string{"web_2.0.0", "db_1.0.0"} {
		if err := r.PushManifest(ctx, describe(ocispec.MediaTypeImageManifest, text), text, tag); err != nil {
			t.Fatal(err)
		}
	}
	c := h.catalog(t)
	if _, err := c.Open(ctx, "web", "1.0.0"); err != nil {
		t.Fatal(err)
	}
	for name, version := range map[string]string{"web": "2.0.0", "db": "1.0.0"} {
		if _, err := c.Open(ctx, name, version); err == nil || !strings.Contains(err.Error(), "it says that it is web 1.0.0") {
			t.Errorf("%s %s: %v", name, version, err)
		}
		list, err := c.Versions(ctx, name)
		if err != nil || list[0].Version != version || list[0].Problem == nil {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}
