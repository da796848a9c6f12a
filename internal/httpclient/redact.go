package httpclient

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// Redact takes the credentials out of an upstream's URL, for errors, logs and screens. What is no URL keeps nothing that
// stands before an @.
func Redact(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Opaque == "" {
		if u.User == nil {
			return raw
		}
		if _, secret := u.User.Password(); secret || u.Scheme != "ssh" {
			u.User = url.User("redacted")
		}
		return u.String()
	}
	if at := strings.LastIndex(raw, "@"); at >= 0 {
		return "redacted" + raw[at:]
	}
	return raw
}

// RedactError hides every form of an upstream's credentials that a library, or the server, may have put into a text. The
// cause stays for errors.Is and errors.As. The URL may be nil.
func RedactError(err error, u *url.URL, c Credentials) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := text
	for _, secret := range secretTexts(u, c) {
		clean = strings.ReplaceAll(clean, secret, "redacted")
	}
	if clean == text {
		return err
	}
	return &redactedError{text: clean, err: err}
}

// shortest is how long a secret must be to be looked for: shorter ones would tear words of the text apart.
const shortest = 4

func secretTexts(u *url.URL, c Credentials) []string {
	secrets := []string{c.Password, c.Bearer}
	if c.Password != "" {
		secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)))
	}
	if u != nil && u.User != nil {
		password, has := u.User.Password()
		if has {
			secrets = append(secrets, u.User.String(), password)
		}
		if u.Scheme != "ssh" {
			secrets = append(secrets, u.User.Username())
		}
	}
	var all []string
	for _, secret := range secrets {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			if len(form) >= shortest {
				all = append(all, form)
			}
		}
	}
	return all
}

// redactedError shows the cleaned text.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }
