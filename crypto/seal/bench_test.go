package seal_test

import (
	"testing"

	"github.com/pluralsh/plural/crypto/seal"
)

func BenchmarkSeal1KiB(b *testing.B) {
	key, plaintext := x25519(b), random(b, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := seal.Seal(plaintext, home(), key.Recipient); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen1KiB(b *testing.B) {
	key := x25519(b)
	sealed := must(seal.Seal(random(b, 1<<10), home(), key.Recipient))(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := seal.Open(sealed, key.Identity); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInspect(b *testing.B) {
	sealed := must(seal.Seal(random(b, 1<<10), home(), x25519(b).Recipient))(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := seal.Inspect(sealed); err != nil {
			b.Fatal(err)
		}
	}
}
