package sops

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// fields looks a value of the metadata up by its path of keys (string) and list positions (int). It is "" for what is not there.
type fields func(path ...any) string

// treeFields reads metadata that stands as a tree.
func treeFields(root branch) fields {
	return func(path ...any) string {
		var at any = root
		for _, step := range path {
			at = child(at, step)
		}
		value, _ := at.(*leaf)
		if value == nil {
			return ""
		}
		if when, ok := value.value.(time.Time); ok {
			return when.Format(time.RFC3339)
		}
		text, err := bytesOf(value.value)
		if err != nil {
			return ""
		}
		return string(text)
	}
}

func child(at, step any) any {
	switch at := at.(type) {
	case branch:
		for _, it := range at {
			if it.comment == nil && it.key == step {
				return it.value
			}
		}
	case list:
		values := slices.DeleteFunc(slices.Clone(at), func(v any) bool { _, ok := v.(*comment); return ok })
		if i, ok := step.(int); ok && i < len(values) {
			return values[i]
		}
	}
	return nil
}

// flatFields reads metadata whose paths were joined into keys.
func flatFields(root map[string]string) fields {
	return func(path ...any) string {
		var key strings.Builder
		key.WriteString(metadataKey + "_")
		for i, step := range path {
			switch step := step.(type) {
			case int:
				key.WriteString("__list_" + strconv.Itoa(step))
			case string:
				if i > 0 {
					key.WriteString("__map_")
				}
				key.WriteString(step)
			}
		}
		return root[key.String()]
	}
}

// metadata is what a file says of its own encryption.
type metadata struct {
	keys   []sealedKey
	others []string
	rule   rule
	// onlyEncrypted files have a MAC over their encrypted values alone.
	onlyEncrypted bool
	mac, modified string
}

// sealedKey is the data key, sealed to one age recipient.
type sealedKey struct{ recipient, armored string }

func readMetadata(get fields) (*metadata, error) {
	m := &metadata{mac: get("mac"), onlyEncrypted: strings.EqualFold(get("mac_only_encrypted"), "true")}
	modified, err := time.Parse(time.RFC3339, get("lastmodified"))
	if err != nil || m.mac == "" {
		return nil, damaged("its sops metadata lacks mac or lastmodified")
	}
	m.modified = modified.Format(time.RFC3339)
	if err := m.readKeys(get); err != nil {
		return nil, err
	}
	return m, m.readRule(get)
}

// readKeys takes the keys of the one key group, wherever it stands.
func (m *metadata) readKeys(get fields) error {
	var group []any
	if !anyKey(get) {
		group = []any{"key_groups", 0}
		within := func(n int) fields {
			return func(path ...any) string { return get(append([]any{"key_groups", n}, path...)...) }
		}
		if anyKey(within(1)) {
			return &UnsupportedError{"several key groups together", fixKeys}
		}
	}
	for i := 0; ; i++ {
		armored := get(slices.Concat(group, []any{"age", i, "enc"})...)
		if armored == "" {
			break
		}
		if i == maxKeys || len(armored) > maxKey {
			return &UnsupportedError{fmt.Sprintf("more than %d recipients, or a key of more than %d KiB", maxKeys, maxKey>>10), fixKeys}
		}
		m.keys = append(m.keys, sealedKey{get(slices.Concat(group, []any{"age", i, "recipient"})...), armored})
	}
	for _, kind := range otherKinds() {
		if get(slices.Concat(group, []any{kind, 0, "enc"})...) != "" {
			m.others = append(m.others, kind)
		}
	}
	return nil
}

func anyKey(get fields) bool {
	return slices.ContainsFunc(append(otherKinds(), "age"), func(kind string) bool { return get(kind, 0, "enc") != "" })
}

// otherKinds are the keys that sops knows besides age's.
func otherKinds() []string {
	return []string{"pgp", "kms", "gcp_kms", "azure_kv", "hc_vault", "hckms"}
}

// dataKey opens the key of all values with the first identity that fits.
func (m *metadata) dataKey(ids []age.Identity) ([]byte, error) {
	if len(m.keys) == 0 {
		if len(m.others) == 0 {
			return nil, damaged("its sops metadata names no key")
		}
		return nil, &UnsupportedError{"a key of " + strings.Join(m.others, ", "), fixKeys}
	}
	none := &NoIdentityError{Others: m.others}
	for _, k := range m.keys {
		none.Recipients = append(none.Recipients, printable(k.recipient))
		if len(ids) == 0 {
			continue
		}
		key, err := k.open(ids)
		var unfit *age.NoIdentityMatchError
		if errors.As(err, &unfit) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return key, nil
	}
	return nil, none
}

func (k sealedKey) open(ids []age.Identity) ([]byte, error) {
	plain, err := age.Decrypt(armor.NewReader(strings.NewReader(k.armored)), ids...)
	var unfit *age.NoIdentityMatchError
	if errors.As(err, &unfit) {
		return nil, unfit
	}
	var key []byte
	if err == nil {
		key, err = io.ReadAll(io.LimitReader(plain, keySize+1))
	}
	if err != nil || len(key) != keySize {
		return nil, damaged("its data key for %s does not open", printable(k.recipient))
	}
	return key, nil
}

// printable keeps what a stranger wrote as a recipient's name short and harmless.
func printable(recipient string) string {
	const most = 70
	if len(recipient) > most {
		recipient = recipient[:most] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, recipient)
}

// rule says which values are encrypted. By a match of some key above the value or, when comments is set, of some comment
// before it; sealsMatches says whether a match means encrypted or the opposite.
type rule struct {
	matches      func(string) bool
	comments     bool
	sealsMatches bool
}

// defaultSuffix ends the keys of values that are left in clear when the file states no rule.
const defaultSuffix = "_unencrypted"

func (m *metadata) readRule(get fields) error {
	m.rule = rule{matches: func(key string) bool { return strings.HasSuffix(key, defaultSuffix) }}
	stated := 0
	for _, r := range []struct {
		name          string
		regex         bool
		comments      bool
		sealsMatching bool
	}{
		{name: "unencrypted_suffix"},
		{name: "encrypted_suffix", sealsMatching: true},
		{name: "unencrypted_regex", regex: true},
		{name: "encrypted_regex", regex: true, sealsMatching: true},
		{name: "unencrypted_comment_regex", regex: true, comments: true},
		{name: "encrypted_comment_regex", regex: true, comments: true, sealsMatching: true},
	} {
		text := get(r.name)
		if text == "" {
			continue
		}
		stated++
		m.rule = rule{comments: r.comments, sealsMatches: r.sealsMatching}
		m.rule.matches = func(key string) bool { return strings.HasSuffix(key, text) }
		if r.regex {
			expression, err := regexp.Compile(text)
			if err != nil {
				return damaged("its %s is no regular expression", r.name)
			}
			m.rule.matches = expression.MatchString
		}
	}
	if stated > 1 {
		return damaged("its sops metadata states %d rules of what is encrypted; one is allowed", stated)
	}
	return nil
}
