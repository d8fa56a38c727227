// A KMS plug-in of version 2 on the server library of Kubernetes. Its keys come from the command line.
package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"k8s.io/kms/pkg/service"
)

// Annotation with the nonce of a ciphertext: a server must give it back.
const nonceName = "nonce.kms.capstan.dev"

// Longest time until a connection is complete.
const timeout = 3 * time.Second

// plugin seals with its present key, and opens with all of them.
type plugin struct {
	present string
	keys    map[string]cipher.AEAD
}

func (p *plugin) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: p.present}, nil
}

func (p *plugin) Encrypt(_ context.Context, uid string, data []byte) (*service.EncryptResponse, error) {
	aead := p.keys[p.present]
	nonce := make([]byte, aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	log.Printf("encrypt %s with %s", uid, p.present)
	return &service.EncryptResponse{
		Ciphertext:  aead.Seal(nil, nonce, data, nil),
		KeyID:       p.present,
		Annotations: map[string][]byte{nonceName: nonce},
	}, nil
}

func (p *plugin) Decrypt(_ context.Context, uid string, request *service.DecryptRequest) ([]byte, error) {
	aead, found := p.keys[request.KeyID]
	if !found {
		return nil, fmt.Errorf("there is no key %q", request.KeyID)
	}
	nonce := request.Annotations[nonceName]
	if len(nonce) != aead.NonceSize() {
		return nil, fmt.Errorf("annotation %s: %d bytes", nonceName, len(nonce))
	}
	log.Printf("decrypt %s with %s", uid, request.KeyID)
	return aead.Open(nil, nonce, request.Ciphertext, nil)
}

// Set adds a key, given as ID=HEX. The last one seals.
func (p *plugin) Set(text string) error {
	id, digits, found := strings.Cut(text, "=")
	key, err := hex.DecodeString(digits)
	if !found || err != nil {
		return fmt.Errorf("must be ID=HEX")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	p.present = id
	p.keys[id], err = cipher.NewGCM(block)
	return err
}

func (p *plugin) String() string { return p.present }

func main() {
	plugin := &plugin{keys: map[string]cipher.AEAD{}}
	socket := flag.String("socket", "", "path of the socket")
	flag.Var(plugin, "key", "key as ID=HEX; can be repeated, and the last one seals")
	flag.Parse()
	if *socket == "" || plugin.present == "" {
		log.Fatal("--socket and --key are required")
	}
	// A plug-in that was killed leaves its socket.
	if err := os.Remove(*socket); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	log.Fatal(service.NewGRPCService(*socket, timeout, plugin).ListenAndServe())
}
