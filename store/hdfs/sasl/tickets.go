package sasl

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// ticket returns a ticket for service/host@realm, from memory if it is fresh.
func (c *Credentials) ticket(service, host, realm string) (serviceTicket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(); err != nil {
		return serviceTicket{}, err
	}
	home := c.kdc.Credentials.Domain()
	if realm == "" {
		realm = c.realm(host)
	}
	name := service + "/" + host
	full := name + "@" + realm
	held, ok := c.services[full]
	if !ok || !held.fresh(c.o.Now()) {
		var err error
		if held, err = c.ask(name, realm, home); err != nil {
			return serviceTicket{}, kdcError(fmt.Sprintf("ticket of %s for %s", c.principal(), full), err)
		}
		c.services[full] = held
	}
	return serviceTicket{ticket: held.ticket, key: held.key, client: c.kdc.Credentials.CName(), clientRealm: home}, nil
}

// Realm is the realm that krb5.conf says a host is in, else our own.
func (c *Credentials) Realm(host string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.realm(host)
}

func (c *Credentials) realm(host string) string {
	if realm := c.config.ResolveRealm(host); realm != "" {
		return realm
	}
	return c.kdc.Credentials.Domain()
}

// ask gets a service's ticket from the KDC of its realm, by way of our own.
func (c *Credentials) ask(name, realm, home string) (heldTicket, error) {
	tgt := c.tgt
	if realm != home {
		krbtgt := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}
		var err error
		if tgt, err = c.exchange(krbtgt, home, tgt, false); err != nil {
			return heldTicket{}, err
		}
	}
	return c.exchange(types.PrincipalName{NameType: nametype.KRB_NT_SRV_HST, NameString: strings.Split(name, "/")}, realm, tgt, false)
}

// exchange asks realm's KDC for a ticket with tgt in hand.
func (c *Credentials) exchange(name types.PrincipalName, realm string, tgt heldTicket, renew bool) (heldTicket, error) {
	reply, err := guarded(func() (messages.TGSRep, error) {
		_, reply, err := c.kdc.TGSREQGenerateAndExchange(name, realm, tgt.ticket, tgt.key, renew)
		return reply, err
	})
	if err != nil {
		return heldTicket{}, err
	}
	// gokrb5 does not look at what the ticket is for.
	part := reply.DecryptedEncPart
	if !part.SName.Equal(name) {
		return heldTicket{}, fmt.Errorf("the KDC answers with a ticket for %.64q instead of %.64q", part.SName.PrincipalNameString(), name.PrincipalNameString())
	}
	return held(reply.Ticket, part), nil
}

func held(t messages.Ticket, part messages.EncKDCRepPart) heldTicket {
	h := heldTicket{ticket: t, key: part.Key, start: part.StartTime, end: part.EndTime, renewableTo: part.RenewTill}
	if h.start.IsZero() {
		h.start = part.AuthTime
	}
	return h
}

// retryAfter is the pause between attempts to renew a ticket that is still good.
const retryAfter = 30 * time.Second

// refresh makes sure that the ticket-granting ticket is good. As long as the old one is, a failure to get a
// new one does no harm.
func (c *Credentials) refresh() error {
	now := c.o.Now()
	if c.tgt.fresh(now) || c.tgt.end.After(now) && now.Before(c.retry) {
		return nil
	}
	c.retry = now.Add(retryAfter)
	var err error
	if c.o.Keytab != "" {
		err = c.login()
	} else {
		err = c.reload(now)
	}
	if err != nil && c.tgt.end.After(now) {
		return nil
	}
	return err
}

// login asks for a new ticket-granting ticket with the keytab's key.
func (c *Credentials) login() error {
	doing := "log-in of " + c.principal()
	realm := c.kdc.Credentials.Domain()
	reply, err := guarded(func() (messages.ASRep, error) {
		req, err := messages.NewASReqForTGT(realm, c.config, c.kdc.Credentials.CName())
		if err != nil {
			return messages.ASRep{}, err
		}
		return c.kdc.ASExchange(realm, req, 0)
	})
	if err != nil {
		return kdcError(doing, err)
	}
	c.tgt = held(reply.Ticket, reply.DecryptedEncPart)
	clear(c.services)
	return nil
}

// reload looks for a newer ticket in the cache, and else renews the one we have.
func (c *Credentials) reload(now time.Time) error {
	readErr := c.openCache()
	if readErr == nil && c.tgt.fresh(now) {
		return nil
	}
	if !c.tgt.end.After(now) {
		expired := fmt.Errorf("%w: the ticket of %s expired at %s (now: %s): run kinit, or give a keytab, which needs no care",
			ErrAuth, c.principal(), c.tgt.end.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		return errors.Join(expired, readErr)
	}
	if !c.tgt.renewableTo.After(now) {
		return nil
	}
	realm := c.kdc.Credentials.Domain()
	krbtgt := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}
	renewed, err := c.exchange(krbtgt, realm, c.tgt, true)
	if err != nil {
		return kdcError("renewal of the ticket of "+c.principal(), err)
	}
	c.tgt = renewed
	clear(c.services)
	return nil
}
