package block

import (
	"bytes"
	"errors"
	"testing"
)

func TestPut(t *testing.T) {
	const frame = Start + "\nx\n" + End + "\n"
	tests := []struct{ name, text, want, first string }{
		{"an empty text", "", frame, frame},
		{"a text", "a\n", "a\n\n" + frame, frame + "a\n"},
		{"a text without a final newline", "a", "a\n\n" + frame, frame + "a"},
		{"a script", "#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 0\n\n" + frame, "#!/bin/sh\n" + frame + "exit 0\n"},
		{"nothing but a #! line", "#!/bin/sh", "#!/bin/sh\n\n" + frame, "#!/bin/sh\n" + frame},
		{"an older block", "a\n" + Start + "\nold\n" + End + "\nb\n", "a\n" + frame + "b\n", "a\n" + frame + "b\n"},
		{"other line endings", "a\r\n", "a\r\n\r\n" + Start + "\r\nx\r\n" + End + "\r\n", Start + "\r\nx\r\n" + End + "\r\na\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Put([]byte(tt.text), []byte("x\n"))
			if err != nil || string(got) != tt.want {
				t.Errorf("Put: got %q, %v, want %q", got, err, tt.want)
			}
			got, err = PutFirst([]byte(tt.text), []byte("x\n"))
			if err != nil || string(got) != tt.first {
				t.Errorf("PutFirst: got %q, %v, want %q", got, err, tt.first)
			}
			body, err := Body(got)
			if err != nil || string(bytes.ReplaceAll(body, []byte("\r"), nil)) != "x\n" {
				t.Errorf("Body: got %q, %v", body, err)
			}
		})
	}
}

func TestBlockWithoutEndIsRefused(t *testing.T) {
	text := []byte("a\n" + Start + "\nb\n")
	for name, do := range map[string]func() ([]byte, error){
		"Put":      func() ([]byte, error) { return Put(text, nil) },
		"PutFirst": func() ([]byte, error) { return PutFirst(text, nil) },
		"Cut":      func() ([]byte, error) { return Cut(text) },
		"Body":     func() ([]byte, error) { return Body(text) },
	} {
		var unended *UnendedError
		if _, err := do(); !errors.As(err, &unended) || unended.Line != 2 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzBlockKeepsWhatStandsAround(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("a"))
	f.Add([]byte("a\r\nb\r\n"))
	f.Add([]byte("#!/bin/sh\n\n\n"))
	f.Add([]byte("a\n" + Start + "\nold\n" + End + "\nb"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, put := range map[string]func(text, body []byte) ([]byte, error){"Put": Put, "PutFirst": PutFirst} {
			once, err := put(text, []byte("x\ny\n"))
			if err != nil {
				return // no input that the property speaks of
			}
			twice, err := put(once, []byte("x\ny\n"))
			if err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("%s is not stable: %q then %q, %v", name, once, twice, err)
			}
			start, end, _ := find(text)
			if name == "Put" && (!bytes.HasPrefix(once, text[:start]) || !bytes.HasSuffix(once, text[end:])) {
				t.Fatalf("%q became %q", text, once)
			}
			if start < len(text) || len(text) > 0 && text[len(text)-1] != '\n' {
				continue
			}
			if again, err := Cut(once); err != nil || !bytes.Equal(again, text) {
				t.Fatalf("%s: %q came back as %q, %v", name, text, again, err)
			}
		}
	})
}
