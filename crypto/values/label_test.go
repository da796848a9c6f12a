package values

import "testing"

func TestLabelIsTheKeyAsItIsWritten(t *testing.T) {
	for text, want := range map[string]string{"ca.crt: x\n": "ca.crt", "plain: x\n": "plain", `"a[0]": x` + "\n": "a[0]", `"back\\slash": x` + "\n": `back\slash`} {
		keys, err := List("x.yaml", []byte(text))
		if err != nil || len(keys) != 1 {
			t.Fatalf("%q: %q, %v", text, keys, err)
		}
		if got, single := Label(keys[0]); got != want || !single {
			t.Errorf("%q: %q, %v", text, got, single)
		}
	}
	for _, key := range []string{"a.b", "a[0]"} {
		if _, single := Label(key); single {
			t.Errorf("%q counts as one part", key)
		}
	}
}
