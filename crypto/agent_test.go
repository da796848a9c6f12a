package crypto_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto"
)

func TestAgentIdentitySurvivesItsSecret(t *testing.T) {
	made, err := crypto.NewAgentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	read, err := crypto.ParseAgentIdentity(made.Private())
	if err != nil {
		t.Fatal(err)
	}
	if made.Public() != read.Public() || !made.Auth().Equal(read.Auth()) {
		t.Error("the identity that was read is not the one that was written")
	}
	key, err := crypto.ParseAuthKey(made.Public().Auth)
	if err != nil || !key.Equal(made.Auth().Public()) {
		t.Errorf("ParseAuthKey = %v, %v", key, err)
	}
}

func TestAgentIdentityOpensWhatIsSealedForItsCluster(t *testing.T) {
	agent, other := must(t), must(t)
	to, err := age.ParseX25519Recipient(agent.Public().Age)
	if err != nil {
		t.Fatal(err)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("password")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := age.Decrypt(bytes.NewReader(sealed.Bytes()), agent.Opener())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "password" {
		t.Errorf("opened %q, %v", got, err)
	}
	if _, err := age.Decrypt(bytes.NewReader(sealed.Bytes()), other.Opener()); !errors.Is(err, age.ErrIncorrectIdentity) {
		t.Errorf("another agent: %v", err)
	}
}

func TestAgentIdentityNeverPrintsItsKeys(t *testing.T) {
	identity, err := crypto.NewAgentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("identity", "value", identity)
	encoded, err := json.Marshal(identity)
	if err != nil {
		t.Fatal(err)
	}
	auth, opener := identity.Private()
	for _, printed := range []string{fmt.Sprint(identity), fmt.Sprintf("%#v %+v %s", identity, identity, identity), log.String(), string(encoded)} {
		if strings.Contains(printed, auth) || strings.Contains(printed, opener) || !strings.Contains(printed, "[redacted]") {
			t.Errorf("printed %q", printed)
		}
	}
}

func TestParseAgentIdentityRefusesWithoutRepeatingTheKey(t *testing.T) {
	auth, opener := must(t).Private()
	for _, pair := range [][2]string{{"", opener}, {auth, ""}, {auth[:10], opener}, {auth, opener[:30]}, {"!!" + auth, opener}} {
		_, err := crypto.ParseAgentIdentity(pair[0], pair[1])
		if err == nil {
			t.Fatalf("accepted %q", pair)
		}
		if len(pair[0]) > 5 && strings.Contains(err.Error(), pair[0]) || len(pair[1]) > 5 && strings.Contains(err.Error(), pair[1]) {
			t.Errorf("the error repeats a key: %v", err)
		}
	}
}

func must(t *testing.T) *crypto.AgentIdentity {
	t.Helper()
	identity, err := crypto.NewAgentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return identity
}
