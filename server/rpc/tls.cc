#include "rpc/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/status_macros.h"

namespace once::rpc {
namespace {

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* value) const { Free(value); }
};
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;

struct BioFreer {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, BioFreer>;

absl::StatusOr<Bio> Open(const std::string& path) {
  Bio bio(BIO_new_file(path.c_str(), "r"));
  if (bio == nullptr) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  }
  return bio;
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& path) {
  ONCE_ASSIGN_OR_RETURN(const Bio bio, Open(path));
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat(path, " holds no PEM certificate"));
  }
  return certificate;
}

absl::StatusOr<Key> ReadKey(const std::string& path) {
  ONCE_ASSIGN_OR_RETURN(const Bio bio, Open(path));
  // Nobody to ask for a passphrase.
  const auto refuse = [](char*, int, int, void*) { return -1; };
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse, nullptr));
  if (key == nullptr) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat(path, " holds no unencrypted PEM private key"));
  }
  return key;
}

absl::Status CheckFiles(const TlsOptions& options) {
  ONCE_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(options.certificate_file));
  ONCE_ASSIGN_OR_RETURN(const Key key, ReadKey(options.key_file));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat("the key in ", options.key_file,
                                                   " does not belong to the certificate in ",
                                                   options.certificate_file));
  }
  if (options.client_certificates != ClientCertificates::kNone) {
    return ReadCertificate(options.client_ca_file).status();
  }
  return absl::OkStatus();
}

grpc_ssl_client_certificate_request_type RequestType(ClientCertificates certificates) {
  switch (certificates) {
    case ClientCertificates::kNone:
      return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    case ClientCertificates::kRequest:
      return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case ClientCertificates::kRequire:
      return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTlsCredentials(
    const TlsOptions& options) {
  ONCE_RETURN_IF_ERROR(CheckFiles(options));
  namespace tls = grpc::experimental;
  const bool client_ca = options.client_certificates != ClientCertificates::kNone;
  const auto interval =
      static_cast<unsigned>(std::max<int64_t>(1, absl::ToInt64Seconds(options.reload_interval)));
  auto provider = std::make_shared<tls::FileWatcherCertificateProvider>(
      options.key_file, options.certificate_file, client_ca ? options.client_ca_file : "",
      interval);
  tls::TlsServerCredentialsOptions grpc_options(provider);
  grpc_options.watch_identity_key_cert_pairs();
  if (client_ca) {
    grpc_options.watch_root_certs();
  }
  grpc_options.set_cert_request_type(RequestType(options.client_certificates));
  // The chain is verified by TLS itself. The default would also compare the client's certificate
  // with a host name that no client has.
  grpc_options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  grpc_options.set_check_call_host(false);
  return tls::TlsServerCredentials(grpc_options);
}

}  // namespace once::rpc
