// SPDX-License-Identifier: Apache-2.0
// Encoders, encoder-decoders and models of images of Hugging Face: as many parameters as Transformers 5.23
// counts on the meta device, by the defaults of each class and with fields of other values.
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using models::Graph;
using models::model_of_hf_config;
using testing::HasSubstr;

int64_t counted(const std::string& config) { return graph_of_config(config).parameter_elements(); }

std::string of_class(const char* name, const char* type, const char* fields) {
  return fmt::format(R"({{"architectures": ["{}"], "model_type": "{}"{}{}}})", name, type,
                     *fields == '\0' ? "" : ", ", fields);
}

struct ClassCount {
  const char *name, *type;
  int64_t parameters;
  const char* fields = "";  ///< other than by default
};

class HfFamilies : public testing::TestWithParam<ClassCount> {};

TEST_P(HfFamilies, HaveTheParametersOfTheLibrary) {
  const ClassCount& c = GetParam();
  EXPECT_EQ(counted(of_class(c.name, c.type, c.fields)), c.parameters) << c.name << " " << c.fields;
}

constexpr const char* kConvNext = R"("hidden_sizes": [96, 192, 384, 768], "depths": [3, 3, 9, 3])";
constexpr const char* kSegformer =
    R"("hidden_sizes": [32, 64, 160, 256], "depths": [2, 2, 2, 2], "num_attention_heads": [1, 2, 5, 8],
    "mlp_ratios": [4, 4, 4, 4], "sr_ratios": [8, 4, 2, 1], "patch_sizes": [7, 3, 3, 3], "strides": [4, 2, 2, 2])";

INSTANTIATE_TEST_SUITE_P(
    Encoders, HfFamilies,
    testing::Values(
        ClassCount{"BertForMaskedLM", "bert", 109514298}, ClassCount{"BertLMHeadModel", "bert", 109514298},
        ClassCount{"BertModel", "bert", 109482240},
        ClassCount{"BertForSequenceClassification", "bert", 109483778},
        ClassCount{"BertForTokenClassification", "bert", 108893186},
        ClassCount{"BertForMaskedLM", "bert", 132985716, R"("tie_word_embeddings": false)"},
        ClassCount{"RobertaForMaskedLM", "roberta", 124696665},
        ClassCount{"XLMRobertaForMaskedLM", "xlm-roberta", 278295186,
                   R"("vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1)"},
        ClassCount{"RobertaPreLayerNormForMaskedLM", "roberta-prelayernorm", 124698201},
        ClassCount{"XLMRobertaXLForMaskedLM", "xlm-roberta-xl", 3482741760},
        ClassCount{"MegatronBertForMaskedLM", "megatron-bert", 333671808},
        ClassCount{"ElectraForMaskedLM", "electra", 13546682},
        ClassCount{"ElectraModel", "electra", 13483008}, ClassCount{"AlbertForMaskedLM", "albert", 206368944},
        ClassCount{"RemBertForMaskedLM", "rembert", 993263548},
        ClassCount{"RoFormerForMaskedLM", "roformer", 124197968},
        ClassCount{"MPNetForMaskedLM", "mpnet", 109516991},
        ClassCount{"DebertaForMaskedLM", "deberta", 124685913},
        ClassCount{"DebertaV2ForMaskedLM", "deberta-v2", 879999588},
        ClassCount{"ModernBertForMaskedLM", "modernbert", 149655232},
        ClassCount{"ModernBertForSequenceClassification", "modernbert", 149606402},
        ClassCount{"NomicBertForMaskedLM", "nomic_bert", 137354304},
        ClassCount{"GteForMaskedLM", "gte", 306210496},
        ClassCount{"JinaEmbeddingsV3ForMaskedLM", "jina_embeddings_v3", 559616146},
        ClassCount{"EuroBertForMaskedLM", "eurobert", 310266624},
        ClassCount{"EsmcForMaskedLM", "esmc", 6352005184},
        ClassCount{"LayoutLMForMaskedLM", "layoutlm", 113250618},
        ClassCount{"TapasForMaskedLM", "tapas", 110703930},
        ClassCount{"XLMWithLMHeadModel", "xlm", 667119041},
        ClassCount{"DistilBertForMaskedLM", "distilbert", 66985530},
        ClassCount{"BertGenerationDecoder", "bert-generation", 354452662}));

INSTANTIATE_TEST_SUITE_P(
    EncoderDecoders, HfFamilies,
    testing::Values(ClassCount{"BartForConditionalGeneration", "bart", 406291456},
                    ClassCount{"BartForCausalLM", "bart", 254084096},
                    ClassCount{"MBartForConditionalGeneration", "mbart", 406295552},
                    ClassCount{"PegasusForConditionalGeneration", "pegasus", 406287360},
                    ClassCount{"MarianMTModel", "marian", 414307328},
                    ClassCount{"BlenderbotForConditionalGeneration", "blenderbot", 2696268800},
                    ClassCount{"BlenderbotSmallForConditionalGeneration", "blenderbot-small", 85113344},
                    ClassCount{"M2M100ForConditionalGeneration", "m2m_100", 483905536},
                    ClassCount{"PLBartForConditionalGeneration", "plbart", 139220736},
                    ClassCount{"MvpForConditionalGeneration", "mvp", 406293504},
                    ClassCount{"FSMTForConditionalGeneration", "fsmt", 483913728},
                    ClassCount{"TrOCRForCausalLM", "trocr", 253559808},
                    ClassCount{"T5ForConditionalGeneration", "t5", 60506624},
                    ClassCount{"MT5ForConditionalGeneration", "mt5", 172119424},
                    ClassCount{"UMT5ForConditionalGeneration", "umt5", 172122112},
                    ClassCount{"T5EncoderModel", "t5", 4762310656,
                               R"("d_model": 4096, "d_ff": 10240, "num_heads": 64, "num_layers": 24,
                               "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)"},
                    ClassCount{"WhisperForConditionalGeneration", "whisper", 37760640},
                    ClassCount{"WhisperForConditionalGeneration", "whisper", 1543490560,
                               R"("d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
                               "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120,
                               "decoder_ffn_dim": 5120, "num_mel_bins": 128, "vocab_size": 51866)"},
                    ClassCount{"WhisperForCausalLM", "whisper", 29552256}));

INSTANTIATE_TEST_SUITE_P(
    Images, HfFamilies,
    testing::Values(ClassCount{"ViTForImageClassification", "vit", 85800194},
                    ClassCount{"ViTModel", "vit", 86389248},
                    ClassCount{"DeiTForImageClassification", "deit", 85801730},
                    ClassCount{"Dinov2ForImageClassification", "dinov2", 85728770},
                    ClassCount{"Dinov2WithRegistersForImageClassification", "dinov2_with_registers",
                               85824002},
                    ClassCount{"ViTMSNForImageClassification", "vit_msn", 85800194},
                    ClassCount{"IJepaForImageClassification", "ijepa", 85798658},
                    ClassCount{"BeitForImageClassification", "beit", 85658114},
                    ClassCount{"CLIPForImageClassification", "clip", 87457538},
                    ClassCount{"CLIPVisionModel", "clip_vision_model", 87456000},
                    ClassCount{"SiglipForImageClassification", "siglip", 92885762},
                    ClassCount{"Siglip2ForImageClassification", "siglip2", 92931842},
                    ClassCount{"ResNetForImageClassification", "resnet", 23512130},
                    ClassCount{"BitForImageClassification", "bit", 23504450},
                    ClassCount{"RegNetForImageClassification", "regnet", 19559834},
                    ClassCount{"ConvNextForImageClassification", "convnext", 27821666, kConvNext},
                    ClassCount{"ConvNextV2ForImageClassification", "convnextv2", 27868034, kConvNext},
                    ClassCount{"SegformerForImageClassification", "segformer", 3319906, kSegformer},
                    ClassCount{"MobileNetV1ForImageClassification", "mobilenet_v1", 3209026},
                    ClassCount{"MobileNetV2ForImageClassification", "mobilenet_v2", 2226434},
                    ClassCount{"EfficientNetForImageClassification", "efficientnet", 63792082}));

void expect_refused(const std::string& config, const std::string& why) {
  try {
    counted(config);
    ADD_FAILURE() << "not refused: " << why;
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr(why));
  }
}

TEST(HfFamiliesRefuse, WhatWouldBeAnotherModel) {
  expect_refused(of_class("AlbertForMaskedLM", "albert", R"("num_hidden_groups": 2)"), "num_hidden_groups");
  expect_refused(of_class("DebertaV2ForMaskedLM", "deberta-v2",
                          R"("relative_attention": true, "pos_att_type": ["c2p"])"),
                 "pos_att_type");
  expect_refused(of_class("SwinForImageClassification", "swin", R"("num_heads": [3, 6, 6, 6])"), "double");
  expect_refused(of_class("BertForMaskedLM", "bert", R"("hidden_act": "mish")"), "mish");
  expect_refused(of_class("ResNetForImageClassification", "resnet",
                          R"("depths": [1, 1, 1, 1, 1], "hidden_sizes": [8, 16, 32, 64, 128])"),
                 "5 entries");
  expect_refused(of_class("ResNetForImageClassification", "resnet", R"("depths": [1, 1, 1])"), "depths__3");
  expect_refused(of_class("LongformerForMaskedLM", "longformer", ""), "windows");
  expect_refused(of_class("CLIPForImageClassification", "clip", R"("vision_config": {"hidden_act": "mish"})"),
                 "mish");
}

bool runs_fused(const std::string& config) {
  const Graph g = Graph::from_json(model_of_hf_config(Json::parse(config, "config.json")));
  for (const models::Layer& l : g.layers()) {
    if (l.type != nullptr && l.type->name == "attention")
      return models::Attributes(l.attributes).boolean("fused", true);
  }
  return false;
}

// model.config._attn_implementation of Transformers 5.23.
TEST(HfFamilies, RunTheAttentionThatTheLibraryRuns) {
  EXPECT_TRUE(runs_fused(of_class("BertForMaskedLM", "bert", "")));
  EXPECT_TRUE(runs_fused(of_class("T5ForConditionalGeneration", "t5", "")));
  EXPECT_TRUE(runs_fused(of_class("DistilBertForMaskedLM", "distilbert", "")));
  EXPECT_FALSE(runs_fused(of_class("MegatronBertForMaskedLM", "megatron-bert", "")));
  EXPECT_FALSE(runs_fused(of_class("BertForMaskedLM", "bert", R"("_attn_implementation": "eager")")));
}

TEST(HfFamilies, SeeWindowsInEveryLayerButEachThird) {
  const Graph g = Graph::from_json(model_of_hf_config(Json::parse(
      of_class("ModernBertForMaskedLM", "modernbert", R"("num_hidden_layers": 6)"), "config.json")));
  std::vector<int64_t> windows;
  for (const models::Layer& l : g.layers()) {
    if (l.type != nullptr && l.type->name == "attention")
      windows.push_back(models::Attributes(l.attributes).integer("window", 0, 0));
  }
  EXPECT_THAT(windows, testing::ElementsAre(0, 129, 129, 0, 129, 129));
}

}  // namespace
}  // namespace tandem::tests
