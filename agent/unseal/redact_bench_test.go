package unseal_test

import (
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/unseal"
)

// BenchmarkRedact is what one text costs beside the most that is looked for.
func BenchmarkRedact(b *testing.B) {
	var values []string
	for range 16 {
		values = append(values, strings.Repeat("0123456789abcdef", 4<<10))
	}
	for name, message := range map[string]string{"a sentence": strings.Repeat("the object is not ready; ", 10), "a word": "Deployment"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				unseal.Redact(message, values)
			}
		})
	}
}
