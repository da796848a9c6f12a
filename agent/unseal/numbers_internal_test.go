package unseal

import (
	"slices"
	"testing"
)

// A rendered object has the number, and not how somebody wrote it: as JSON does, or as a template prints it.
func TestASealedNumberIsKnownHoweverItIsWritten(t *testing.T) {
	for written, want := range map[string][]string{
		"0x2E0F2A7":           {"4.8296615e+07", "48296615", "0x2E0F2A7"},
		"48_296_615":          {"4.8296615e+07", "48296615", "48_296_615"},
		"482966150":           {"4.8296615e+08", "482966150"},
		"4829.50":             {"4829.5", "4829.50"},
		"4.8e7":               {"4.8e+07", "48000000", "4.8e7"},
		"9e6":                 {"9000000", "9e+06"},
		"9446744073709551615": {"9.446744073709552e+18", "9446744073709552000", "9446744073709551615"},
		`"0x2E0F2A7"`:         {"0x2E0F2A7"},
		"482966":              {"482966"},
		"0x10":                {"0x10"}, // 16 is everywhere
		"true":                nil,
	} {
		if got := scalars([]byte("pin: " + written + "\n")); !slices.Equal(got, want) {
			t.Errorf("%s is looked for as %q, want %q", written, got, want)
		}
	}
}
