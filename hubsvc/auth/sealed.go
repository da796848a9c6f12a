package auth

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrNotSealed says that a text is none that the hub has sealed for that purpose. Any other error says that nobody can tell now.
var ErrNotSealed = errors.New("it is not one of the hub's")

// Seal is a value that somebody carries who can neither read nor change it, so that no replica has to keep it. What was sealed for one
// purpose opens for no other.
func Seal(ctx context.Context, keys Keys, purpose string, value any) (string, error) {
	id, key, err := keys.Current(ctx)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("seal a %s: %w", purpose, err)
	}
	box, err := aead(key)
	if err != nil {
		return "", fmt.Errorf("seal a %s: %w", purpose, err)
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return id + "." + base64.RawURLEncoding.EncodeToString(box.Seal(nonce, nonce, text, []byte(purpose))), nil
}

// Unseal opens what Seal made.
func Unseal(ctx context.Context, keys Keys, purpose, sealed string, value any) error {
	id, encoded, _ := strings.Cut(sealed, ".")
	key, known, err := keys.Find(ctx, id)
	if err != nil {
		return fmt.Errorf("open a %s: %w", purpose, err)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || !known || strings.ContainsAny(encoded, "\r\n") { // which decoding passes over: there is one writing of each
		return fmt.Errorf("open a %s: %w", purpose, ErrNotSealed)
	}
	box, err := aead(key)
	if err != nil {
		return fmt.Errorf("open a %s: %w", purpose, err)
	}
	if len(raw) < box.NonceSize() {
		return fmt.Errorf("open a %s: %w", purpose, ErrNotSealed)
	}
	text, err := box.Open(nil, raw[:box.NonceSize()], raw[box.NonceSize():], []byte(purpose))
	if err != nil {
		return fmt.Errorf("open a %s: %w", purpose, ErrNotSealed)
	}
	if json.Unmarshal(text, value) != nil { // by another release
		return fmt.Errorf("open a %s: %w", purpose, ErrNotSealed)
	}
	return nil
}

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
