package compare_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/compare"
)

func TestSealedNumbersAreMasked(t *testing.T) {
	thing := func(pin string) string {
		return "apiVersion: x.io/v1\nkind: Thing\nmetadata: {name: t}\nspec: {pin: " + pin + ", rate: 0.48291375, size: 3}\n"
	}
	sealed := []string{"48291375", "73519264", "0.48291375"}
	changes := compare.Objects(
		compare.Side{Objects: objects(t, thing("48291375")), Sealed: sealed},
		compare.Side{Objects: objects(t, thing("73519264")), Sealed: sealed}, []byte("k"))
	if len(changes) != 1 || len(changes[0].Fields) != 1 {
		t.Fatalf("%+v", changes)
	}
	before, after := changes[0].Masked()
	text := fmt.Sprint(changes[0].Fields, before, after)
	for _, value := range []string{"48291375", "7.3519264e+07", "73519264"} {
		if strings.Contains(text, value) {
			t.Errorf("%s is shown: %s", value, text)
		}
	}
	if !strings.Contains(text, "size:3") {
		t.Errorf("what was not sealed is hidden: %s", text)
	}
}

func TestSealedNamesOfItemsAndKeysAreMaskedInPaths(t *testing.T) {
	thing := func(weight int) string {
		return fmt.Sprintf("apiVersion: x.io/v1\nkind: Thing\nmetadata: {name: t}\n"+
			"spec: {ends: [{host: canary-host-1, weight: %d}, {host: plain, weight: %[1]d}], by: {canary-key-22: %[1]d}}\n", weight)
	}
	sealed := []string{"canary-host-1", "canary-key-22"}
	changes := compare.Objects(
		compare.Side{Objects: objects(t, thing(1)), Sealed: sealed}, compare.Side{Objects: objects(t, thing(2)), Sealed: sealed}, []byte("k"))
	before, after := changes[0].Masked()
	if text := fmt.Sprint(changes[0].Fields, before, after); strings.Contains(text, "canary") ||
		!strings.Contains(text, "ends[plain].weight") {
		t.Errorf("what was sealed is shown: %s", text)
	}
}
