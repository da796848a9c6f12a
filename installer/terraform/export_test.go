package terraform

// SecretsOf reads a state as a run does.
func SecretsOf(raw []byte) (out []any) {
	s, err := read(raw)
	if err == nil {
		s.secrets(func(value any) { out = append(out, value) })
	}
	return out
}
