package object_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pluralsh/plural/agent/object"
)

func TestAnObjectIsReadAsItIsPrinted(t *testing.T) {
	label := rapid.StringMatching(`[a-z][a-z0-9-]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		id := object.ID{
			Group: rapid.SampledFrom([]string{"", "apps", "cert-manager.io"}).Draw(t, "group"),
			Kind:  rapid.SampledFrom([]string{"Pod", "Deployment", "Certificate"}).Draw(t, "kind"),
			Name:  label.Draw(t, "name"), Namespace: rapid.SampledFrom([]string{"", "web"}).Draw(t, "namespace"),
		}
		got, err := object.Parse(id.String())
		if err != nil || got != id {
			t.Fatalf("%q reads as %v: %v", id, got, err)
		}
	})
}

func TestWhatNamesNoObjectIsRefused(t *testing.T) {
	for _, text := range []string{"", "Pod", "Pod ", " x", "Pod a b", "Pod a/b/c", ".apps x", "Pod a/"} {
		if id, err := object.Parse(text); err == nil {
			t.Errorf("%q reads as %v", text, id)
		}
	}
}
