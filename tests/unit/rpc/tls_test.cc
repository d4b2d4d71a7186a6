// TLS and mutual TLS with certificates made here.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "unit/rpc/server_fixture.h"

namespace once::rpc {
namespace {

using ::once::testing::IsGrpcOk;
using ::testing::_;
using ::testing::HasSubstr;

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

// A certificate with its key; signs others where it is a CA. Owns its OpenSSL objects.
class Identity {
 public:
  // Signed by `issuer`, or by itself. Good for "localhost".
  Identity(const std::string& name, const Identity* issuer)
      : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), certificate_(X509_new(), X509_free) {
    X509* const x = certificate_.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), issuer == nullptr ? 1 : 2);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key_.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const Identity& signer = issuer == nullptr ? *this : *issuer;
    X509_set_issuer_name(x, X509_get_subject_name(signer.certificate_.get()));
    Extend(NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    if (issuer != nullptr) {
      Extend(NID_subject_alt_name, "DNS:localhost");
    }
    X509_sign(x, signer.key_.get(), EVP_sha256());
  }

  std::string certificate() const {
    BIO* const bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate_.get());
    return TextOf(bio);
  }
  std::string key() const {
    BIO* const bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return TextOf(bio);
  }

 private:
  void Extend(int nid, const char* value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }

  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  std::unique_ptr<X509, decltype(&X509_free)> certificate_;
};

class TlsTest : public ::once::testing::ServerTest {
 protected:
  TlsTest() {
    directory_ = ::testing::TempDir() + "/once-tls-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    options_.tls.emplace();
    options_.tls->certificate_file = Write("server.crt", server_identity_.certificate());
    options_.tls->key_file = Write("server.key", server_identity_.key());
    options_.tls->client_ca_file = Write("client-ca.crt", client_ca_.certificate());
    options_.tls->reload_interval = absl::Seconds(1);
    EXPECT_CALL(pipeline_, Begin(_, _)).WillRepeatedly([](auto, auto done) {
      std::move(done)(Granted());
    });
  }
  ~TlsTest() override {
    for (const char* name : {"server.crt", "server.key", "client-ca.crt", "other"}) {
      (void)remove(absl::StrCat(directory_, "/", name).c_str());
    }
    (void)remove(directory_.c_str());
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(directory_, "/", name);
    // As tools that renew certificates do: never a half-written file under the name.
    std::ofstream(path + ".new") << text;
    EXPECT_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
    return path;
  }

  static std::shared_ptr<grpc::ChannelCredentials> Trusting(const Identity& ca,
                                                            const Identity* client = nullptr) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ca.certificate();
    if (client != nullptr) {
      options.pem_cert_chain = client->certificate();
      options.pem_private_key = client->key();
    }
    return grpc::SslCredentials(options);
  }

  grpc::Status BeginWith(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    v1::BeginResponse response;
    return v1::IdempotencyService::NewStub(Connect(credentials))
        ->Begin(Context().get(), BeginRequest(), &response);
  }

  Identity ca_{"server CA", nullptr};
  Identity client_ca_{"client CA", nullptr};
  Identity server_identity_{"server", &ca_};
  Identity client_{"client", &client_ca_};
  Identity stranger_{"client", &ca_};
  std::string directory_;
};

TEST_F(TlsTest, ServesClientsThatTrustItsCa) {
  Start();
  EXPECT_THAT(BeginWith(Trusting(ca_)), IsGrpcOk());
  EXPECT_FALSE(BeginWith(Trusting(client_ca_)).ok());
  EXPECT_FALSE(BeginWith(grpc::InsecureChannelCredentials()).ok());
}

TEST_F(TlsTest, RequiredClientCertificateComesFromTheClientCa) {
  options_.tls->client_certificates = ClientCertificates::kRequire;
  Start();
  EXPECT_THAT(BeginWith(Trusting(ca_, &client_)), IsGrpcOk());
  EXPECT_FALSE(BeginWith(Trusting(ca_, &stranger_)).ok());
  EXPECT_FALSE(BeginWith(Trusting(ca_)).ok());
}

TEST_F(TlsTest, RequestedClientCertificateMayBeMissingButNotWrong) {
  options_.tls->client_certificates = ClientCertificates::kRequest;
  Start();
  EXPECT_THAT(BeginWith(Trusting(ca_, &client_)), IsGrpcOk());
  EXPECT_THAT(BeginWith(Trusting(ca_)), IsGrpcOk());
  EXPECT_FALSE(BeginWith(Trusting(ca_, &stranger_)).ok());
}

TEST_F(TlsTest, CertificatesAreRenewedWithoutARestart) {
  Start();
  ASSERT_THAT(BeginWith(Trusting(ca_)), IsGrpcOk());
  const Identity new_ca("another CA", nullptr);
  const Identity renewed("server", &new_ca);
  Write("server.crt", renewed.certificate());
  Write("server.key", renewed.key());
  // The files are looked at every second; the loop ends when the new certificate is served.
  grpc::Status status;
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  do {
    status = BeginWith(Trusting(new_ca));
  } while (!status.ok() && absl::Now() < give_up);
  EXPECT_THAT(status, IsGrpcOk());
}

TEST_F(TlsTest, FaultyFilesAreNamedAtTheStart) {
  const auto fault = [this](const TlsOptions& tls) {
    ServerOptions options = options_;
    options.tls = tls;
    const auto server = RpcServer::Start(options, Dependencies());
    return std::string(server.status().message());
  };
  TlsOptions tls = *options_.tls;
  tls.certificate_file = directory_ + "/missing";
  EXPECT_THAT(fault(tls), HasSubstr("cannot read " + tls.certificate_file));
  tls = *options_.tls;
  tls.certificate_file = tls.key_file;
  EXPECT_THAT(fault(tls), HasSubstr("holds no PEM certificate"));
  tls = *options_.tls;
  tls.key_file = tls.certificate_file;
  EXPECT_THAT(fault(tls), HasSubstr("holds no unencrypted PEM private key"));
  tls = *options_.tls;
  tls.key_file = Write("other", client_.key());
  EXPECT_THAT(fault(tls), HasSubstr("does not belong to the certificate"));
  tls = *options_.tls;
  tls.client_certificates = ClientCertificates::kRequire;
  tls.client_ca_file = Write("other", "nonsense");
  EXPECT_THAT(fault(tls), HasSubstr("holds no PEM certificate"));
}

}  // namespace
}  // namespace once::rpc
