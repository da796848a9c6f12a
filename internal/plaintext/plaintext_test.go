package plaintext

import "testing"

func TestWhatIsNoTextIsReplaced(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"fatal: no such ref\n\t": "fatal: no such ref\n\t",
		"naïve 東京":               "naïve 東京",
		"bad\x00ref\x1b[2J\r":    "bad\uFFFDref\uFFFD[2J\uFFFD",
		"half\xe6\x9d a rune":    "half\uFFFD a rune",
	} {
		if got := Of(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
