package unseal

import (
	"slices"
	"testing"
)

// A rendered object has the number, and not how somebody wrote it.
func TestASealedNumberIsKnownHoweverItIsWritten(t *testing.T) {
	for written, want := range map[string][]string{
		"0x2E0F2A7":           {"48296615", "0x2E0F2A7"},
		"48_296_615":          {"48296615", "48_296_615"},
		"482966150":           {"482966150"},
		"4829.50":             {"4829.5", "4829.50"},
		"4.8e7":               {"48000000", "4.8e7"},
		"9e6":                 {"9000000"},
		"9446744073709551615": {"9446744073709552000", "9446744073709551615"},
		`"0x2E0F2A7"`:         {"0x2E0F2A7"},
		"0x10":                {"0x10"}, // 16 is everywhere
		"true":                nil,
	} {
		if got := scalars([]byte("pin: " + written + "\n")); !slices.Equal(got, want) {
			t.Errorf("%s is looked for as %q, want %q", written, got, want)
		}
	}
}
