package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	keySize = 32
	tagSize = 16
	// maxNonce bounds the nonce; sops writes 32 bytes.
	maxNonce = 64

	sealedPrefix = "ENC[AES256_GCM,"
)

// valueCipher opens single values.
type valueCipher struct{ block cipher.Block }

func newValueCipher(key []byte) (valueCipher, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return valueCipher{}, fmt.Errorf("use data key: %w", err)
	}
	return valueCipher{block}, nil
}

var (
	errNotSealed = errors.New("is not encrypted, and should be: edit the file with sops")
	errForged    = errors.New("does not open: it was altered, or moved here from elsewhere")
)

// open returns the value of ENC[AES256_GCM,data:…,iv:…,tag:…,type:…], bound to where it stands. An empty value is written as such.
func (c valueCipher) open(text, binding string) (any, error) {
	if text == "" {
		return "", nil
	}
	sealed, err := parseSealed(text)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCMWithNonceSize(c.block, len(sealed.nonce))
	if err != nil {
		return nil, errForged
	}
	plain, err := gcm.Open(nil, sealed.nonce, append(sealed.data, sealed.tag...), []byte(binding))
	if err != nil {
		return nil, errForged
	}
	return typed(sealed.kind, string(plain))
}

// commentText is a value that is no value but a comment.
type commentText string

type sealedValue struct {
	data, nonce, tag []byte
	kind             string
}

func parseSealed(text string) (v sealedValue, err error) {
	rest, ok := strings.CutPrefix(strings.TrimRight(text, " \t\r"), sealedPrefix)
	if !ok {
		return v, errNotSealed
	}
	rest, ok = strings.CutSuffix(rest, "]")
	parts := strings.Split(rest, ",")
	if !ok || len(parts) != 4 {
		return v, errForged
	}
	for i, name := range []string{"data", "iv", "tag", "type"} {
		if parts[i], ok = strings.CutPrefix(parts[i], name+":"); !ok {
			return v, errForged
		}
	}
	for i, into := range []*[]byte{&v.data, &v.nonce, &v.tag} {
		if *into, err = base64.StdEncoding.Strict().DecodeString(parts[i]); err != nil {
			return v, errForged
		}
	}
	if v.kind = parts[3]; len(v.tag) != tagSize || len(v.nonce) == 0 || len(v.nonce) > maxNonce {
		return v, errForged
	}
	return v, nil
}

// typed gives a plaintext the type it had. A type is not authenticated by itself, but the MAC is over the typed value.
func typed(kind, text string) (value any, err error) {
	switch kind {
	case "str":
		return text, nil
	case "comment":
		return commentText(text), nil
	case "bytes":
		return []byte(text), nil
	case "int":
		value, err = strconv.Atoi(text)
	case "float":
		value, err = strconv.ParseFloat(text, 64)
	case "bool":
		value, err = strconv.ParseBool(text)
	case "time":
		var when time.Time
		err = when.UnmarshalText([]byte(text))
		value = when
	default:
		return nil, errors.New("is of a type that is not known")
	}
	if err != nil { // whose text may quote the value
		return nil, errors.New("is not of the type that it claims")
	}
	return value, nil
}

// bytesOf is a value as sops hashes it.
func bytesOf(value any) ([]byte, error) {
	switch value := value.(type) {
	case string:
		return []byte(value), nil
	case []byte:
		return value, nil
	case int:
		return strconv.AppendInt(nil, int64(value), 10), nil
	case float64:
		return strconv.AppendFloat(nil, value, 'f', -1, 64), nil
	case bool:
		if value {
			return []byte("True"), nil
		}
		return []byte("False"), nil
	case time.Time:
		return value.MarshalText()
	default:
		return nil, fmt.Errorf("value of type %T", value)
	}
}
